/* Tensors like those of an earlier call. */

typedef struct {
    PyTypeObject *type;
    uint64_t keys;
    int64_t bytes; /* of an element; 0: there are none, and no memory is needed */
    int64_t reach; /* bytes from the first one to the end of the last one */
} TensorKind;

typedef struct {
    Called called;
    Reader *reader;
    int count;
    PyObject *check, *types; /* torch's comparison; a tuple that holds the types of `kinds` */
    TensorKind kinds[MOST_VALUES];
} Alike;

static PyObject *alike_call(PyObject *callable, PyObject *const *args, size_t given, PyObject *names)
{
    Alike *self = (Alike *)callable;
    if (PyVectorcall_NARGS(given) != self->count || (names != NULL && PyTuple_GET_SIZE(names)))
        Py_RETURN_FALSE;
    for (int k = 0; k < self->count; k++) {
        const TensorKind *kind = &self->kinds[k];
        uint64_t address;
        if (Py_TYPE(args[k]) != kind->type || keys_of(&self->reader->reads, args[k]) != kind->keys ||
            (kind->bytes && !find_memory(&self->reader->reads, args[k], kind->bytes, kind->reach, &address)))
            Py_RETURN_FALSE;
    }
    return PyObject_Vectorcall(self->check, args, given, NULL);
}

static const Kind alike_kind = {NULL, {offsetof(Alike, reader), offsetof(Alike, check), offsetof(Alike, types)}};

/* (reader, check, the tensors, the bytes of an element of each, and those that all its elements reach over) */
static PyObject *alike_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *reader, *check, *tensors, *bytes, *reaches;
    if (!PyArg_ParseTuple(given, "O!OO!O!O!", reader_type, &reader, &check, &PyTuple_Type, &tensors, &PyTuple_Type,
                          &bytes, &PyTuple_Type, &reaches))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(tensors);
    if (count > MOST_VALUES || count != PyTuple_GET_SIZE(bytes) || count != PyTuple_GET_SIZE(reaches)) {
        PyErr_SetString(PyExc_ValueError, "too many tensors, or not as many sizes");
        return NULL;
    }
    Alike *self = called_alloc(type, alike_call, &alike_kind);
    if (self == NULL)
        return NULL;
    self->reader = (Reader *)Py_NewRef(reader);
    self->check = Py_NewRef(check);
    self->types = PyTuple_New(count);
    for (; self->types != NULL && self->count < count; self->count++) {
        PyObject *tensor = PyTuple_GET_ITEM(tensors, self->count);
        TensorKind *kind = &self->kinds[self->count];
        kind->type = Py_TYPE(tensor);
        PyTuple_SET_ITEM(self->types, self->count, Py_NewRef((PyObject *)kind->type));
        kind->keys = keys_of(&self->reader->reads, tensor);
        kind->bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(bytes, self->count));
        kind->reach = PyLong_AsLongLong(PyTuple_GET_ITEM(reaches, self->count));
    }
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyType_Slot alike_slots[] =
    CALLED_SLOTS("Whether tensors are like those of an earlier call.", alike_new, called_members);
static PyType_Spec alike_spec = {"snap.native.Alike", sizeof(Alike), 0, CALLED_FLAGS, alike_slots};
