/* Tensors like those of an earlier call. */

typedef struct {
    PyTypeObject *type;
    uint64_t keys;
    int64_t bytes; /* of an element; 0: there are none, and no memory is needed */
    int64_t reach; /* bytes from the first one to the end of the last one */
} TensorKind;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Places places;
    int count;
    PyObject *check; /* torch's comparison */
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
        if (Py_TYPE(args[k]) != kind->type || keys_of(&self->places, args[k]) != kind->keys ||
            (kind->bytes && !find_memory(&self->places, args[k], kind->bytes, kind->reach, &address)))
            Py_RETURN_FALSE;
    }
    return PyObject_Vectorcall(self->check, args, given, NULL);
}

static int alike_traverse(PyObject *object, visitproc visit, void *arg)
{
    Alike *self = (Alike *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->check);
    for (int k = 0; k < self->count; k++)
        Py_VISIT(self->kinds[k].type);
    return 0;
}

static void alike_dealloc(PyObject *object)
{
    Alike *self = (Alike *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->check);
    for (int k = 0; k < self->count; k++)
        Py_XDECREF(self->kinds[k].type);
    type->tp_free(object);
    Py_DECREF(type);
}

/* (places, check, the tensors, the bytes of an element of each, and those that all its elements reach over) */
static PyObject *alike_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    Places places;
    PyObject *of, *check, *tensors, *bytes, *reaches;
    if (!PyArg_ParseTuple(given, "O!OO!O!O!", &PyTuple_Type, &of, &check, &PyTuple_Type, &tensors, &PyTuple_Type,
                          &bytes, &PyTuple_Type, &reaches) ||
        !places_of(&places, of))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(tensors);
    if (count > MOST_VALUES || count != PyTuple_GET_SIZE(bytes) || count != PyTuple_GET_SIZE(reaches)) {
        PyErr_SetString(PyExc_ValueError, "too many tensors, or not as many sizes");
        return NULL;
    }
    Alike *self = (Alike *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = alike_call;
    self->places = places;
    self->check = Py_NewRef(check);
    for (; self->count < count; self->count++) {
        PyObject *tensor = PyTuple_GET_ITEM(tensors, self->count);
        self->kinds[self->count].type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(tensor));
        self->kinds[self->count].keys = keys_of(&places, tensor);
        self->kinds[self->count].bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(bytes, self->count));
        self->kinds[self->count].reach = PyLong_AsLongLong(PyTuple_GET_ITEM(reaches, self->count));
    }
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* (places, tensor): nothing else has a handle there, so who calls this knows that it is one. */
static PyObject *keys_at(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Places places;
    if (given != 2 || !PyTuple_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "places and a tensor");
    return places_of(&places, args[0]) ? PyLong_FromUnsignedLongLong(keys_of(&places, args[1])) : NULL;
}

/* (places, counters, *tensors), as above: their versions are raised. */
static PyObject *raise_at(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Places places;
    Counters counters;
    if (given < 2 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "places, counters and tensors");
    if (!places_of(&places, args[0]) || !counters_of(&counters, args[1]))
        return NULL;
    for (Py_ssize_t k = 2; k < given; k++)
        raise_version(&places, &counters, args[k]);
    Py_RETURN_NONE;
}

static PyMemberDef alike_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Alike, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot alike_slots[] = {
    {Py_tp_doc, "Whether tensors are like those of an earlier call."},
    {Py_tp_new, alike_new},
    {Py_tp_dealloc, alike_dealloc},
    {Py_tp_traverse, alike_traverse},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, alike_members},
    {0, NULL},
};

static PyType_Spec alike_spec = {
    .name = "snap.native.Alike",
    .basicsize = sizeof(Alike),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = alike_slots,
};
