/* Launches whose arguments the caller has compared. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Target target;
    int count, bytes;
    uint16_t at[MOST_VALUES]; /* where each argument goes */
    unsigned char image[MOST_BYTES];
} Trusted;

/* (stream, *values): of each an integer, or a tensor map's bytes. */
static PyObject *trusted_call(PyObject *callable, PyObject *const *args, size_t given, PyObject *names)
{
    Trusted *self = (Trusted *)callable;
    _Alignas(64) unsigned char packed[MOST_BYTES];
    if (PyVectorcall_NARGS(given) != self->count + 1 || (names != NULL && PyTuple_GET_SIZE(names)))
        return PyErr_Format(PyExc_TypeError, "a launch of a stream and %d values", self->count);
    unsigned long long stream = PyLong_AsUnsignedLongLong(args[0]);
    if (stream == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    memcpy(packed, self->image, (size_t)self->bytes);
    for (int k = 0; k < self->count; k++) {
        PyObject *arg = args[k + 1];
        if (PyBytes_CheckExact(arg)) {
            if (PyBytes_GET_SIZE(arg) != MAP_BYTES || self->at[k] + MAP_BYTES > self->bytes)
                return PyErr_Format(PyExc_ValueError, "a tensor map has %d bytes", MAP_BYTES);
            memcpy(packed + self->at[k], PyBytes_AS_STRING(arg), MAP_BYTES);
        } else {
            unsigned long long value = PyLong_AsUnsignedLongLong(arg);
            if (value == (unsigned long long)-1 && PyErr_Occurred())
                return NULL;
            memcpy(packed + self->at[k], &value, 8);
        }
    }
    if (launched(&self->target, (void *)(uintptr_t)stream, packed) != MADE)
        return NULL;
    Py_RETURN_NONE;
}

static int trusted_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Trusted *)object)->target.failed);
    return 0;
}

static void trusted_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(((Trusted *)object)->target.failed);
    type->tp_free(object);
    Py_DECREF(type);
}

/* image: all values, packed; offsets: where the arguments go. */
static PyObject *trusted_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *offsets;
    Py_buffer image;
    if (!PyArg_ParseTuple(given, "O!y*O!", &PyTuple_Type, &target, &image, &PyTuple_Type, &offsets))
        return NULL;
    Trusted *self = (Trusted *)type->tp_alloc(type, 0);
    if (self == NULL || !target_of(&self->target, target))
        goto failed;
    self->vectorcall = trusted_call;
    self->count = (int)PyTuple_GET_SIZE(offsets);
    if (image.len > MOST_BYTES || self->count > MOST_VALUES) {
        PyErr_SetString(PyExc_ValueError, "too many values");
        goto failed;
    }
    self->bytes = (int)image.len;
    memcpy(self->image, image.buf, (size_t)image.len);
    for (int k = 0; k < self->count; k++) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(offsets, k));
        if (at < 0 || at + 8 > image.len) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a value outside of the image");
            goto failed;
        }
        self->at[k] = (uint16_t)at;
    }
    PyBuffer_Release(&image);
    return (PyObject *)self;
failed:
    PyBuffer_Release(&image);
    Py_XDECREF(self);
    return NULL;
}

static PyMemberDef trusted_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Trusted, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot trusted_slots[] = {
    {Py_tp_doc, "A launch of a stream, addresses and tensor maps, nothing of which is checked."},
    {Py_tp_new, trusted_new},
    {Py_tp_dealloc, trusted_dealloc},
    {Py_tp_traverse, trusted_traverse},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, trusted_members},
    {0, NULL},
};

static PyType_Spec trusted_spec = {
    .name = "snap.native.Trusted",
    .basicsize = sizeof(Trusted),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = trusted_slots,
};
