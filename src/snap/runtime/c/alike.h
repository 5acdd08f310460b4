/* Tensors like those of an earlier call. */

typedef struct {
    PyTypeObject *type;
    uint64_t keys;
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
    for (int k = 0; k < self->count; k++)
        if (Py_TYPE(args[k]) != self->kinds[k].type || keys_of(&self->places, args[k]) != self->kinds[k].keys)
            Py_RETURN_FALSE;
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

/* (handle, keys, check, the tensors) */
static PyObject *alike_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    Places places;
    PyObject *check, *tensors;
    if (!PyArg_ParseTuple(given, "nnOO!", &places.handle, &places.keys, &check, &PyTuple_Type, &tensors))
        return NULL;
    if (PyTuple_GET_SIZE(tensors) > MOST_VALUES) {
        PyErr_SetString(PyExc_ValueError, "too many tensors");
        return NULL;
    }
    Alike *self = (Alike *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = alike_call;
    self->places = places;
    self->check = Py_NewRef(check);
    for (; self->count < PyTuple_GET_SIZE(tensors); self->count++) {
        PyObject *tensor = PyTuple_GET_ITEM(tensors, self->count);
        self->kinds[self->count].type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(tensor));
        self->kinds[self->count].keys = keys_of(&places, tensor);
    }
    return (PyObject *)self;
}

/* (handle, keys, tensor): nothing else has a handle there, so who calls this knows that it is one. */
static PyObject *keys_at(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 3)
        return PyErr_Format(PyExc_TypeError, "two places and a tensor");
    Places places = {PyLong_AsSsize_t(args[0]), PyLong_AsSsize_t(args[1])};
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(keys_of(&places, args[2]));
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
