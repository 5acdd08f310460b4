/* Tensors of torch, read by its C functions. */

/* torch's C functions; each gives 0 where it has stored what it was asked for. */
typedef int32_t (*Read32)(void *handle, int32_t *);
typedef int32_t (*Read64)(void *handle, int64_t *);
typedef int32_t (*ReadMany)(void *handle, int64_t **);
typedef int32_t (*ReadAddress)(void *handle, void **);

/* What is known of this torch.

   An object of Python has the address of an object of C++ in it, which has the tensor's dispatch keys.  They say what
   kind of tensor it is: on which kind of device, strided or sparse, lazily negated, nested, quantized, one of zeros
   without memory, one that a transform has wrapped.  If its writes are counted at all, that object also has the address
   of another one, with the version in it; and the address of what autograd knows of the tensor, if that is anything. */
typedef struct {
    Read32 dtype, device_type, device;
    Read64 dim;
    ReadMany sizes, strides;
    ReadAddress data;
    Read64 offset;  /* of its first element in its storage, in elements */
    Read64 storage; /* the bytes of that */
    int64_t handle, keys, counter, version, record;
    int8_t (*gradients_enabled)(void);
    uint64_t looked_at, plain; /* keys that count, and which of them a tensor has that is nothing but its memory */
    PyObject *types[2];        /* Tensor, Parameter: subclasses may mean anything */
} Reads;

static const char *object_of(int64_t handle, PyObject *tensor)
{
    const char *object;
    memcpy(&object, (const char *)tensor + handle, sizeof object);
    return object;
}

static uint64_t keys_of(const Reads *reads, PyObject *tensor)
{
    uint64_t keys;
    memcpy(&keys, object_of(reads->handle, tensor) + reads->keys, sizeof keys);
    return keys;
}

/* Stores the address of a tensor's first element.  0: it has no memory.  The storage may have been taken from it, and
   what torch calls its address then is the offset alone; or have been made shorter than the tensor is, which takes
   `reach` bytes of elements of `bytes`. */
static int find_memory(const Reads *reads, PyObject *tensor, int64_t bytes, int64_t reach, uint64_t *address)
{
    void *handle = (char *)tensor + reads->handle, *data;
    int64_t offset, storage;
    *address = 0;
    if (reads->data(handle, &data))
        return 0;
    *address = (uint64_t)(uintptr_t)data;
    return !reads->offset(handle, &offset) && *address != (uint64_t)(offset * bytes) &&
           !reads->storage(handle, &storage) && offset * bytes + reach <= storage;
}

static PyObject *requires_grad; /* the attribute's name */

/* Whether writing into it would escape autograd: it requires a gradient, and gradients are enabled. */
static Outcome unwatched(const Reads *reads, PyObject *tensor)
{
    void *record;
    memcpy(&record, object_of(reads->handle, tensor) + reads->record, sizeof record);
    if (record == NULL || !reads->gradients_enabled())
        return MADE;
    PyObject *said = PyObject_GetAttr(tensor, requires_grad);
    if (said == NULL)
        return after_error();
    Py_DECREF(said);
    return said == Py_False ? MADE : OTHERS;
}

/* The tensor was written: what autograd has kept of it is not what it was. */
static void raise_version(const Reads *reads, PyObject *tensor)
{
    char *counter;
    memcpy(&counter, object_of(reads->handle, tensor) + reads->counter, sizeof counter);
    if (counter != NULL)
        __atomic_fetch_add((uint32_t *)(counter + reads->version), 1, __ATOMIC_SEQ_CST);
}

typedef struct {
    Called called; /* it is not, itself */
    Reads reads;
} Reader;

static const Kind reader_kind = {NULL, {offsetof(Reader, reads.types[0]), offsetof(Reader, reads.types[1])}};

/* (all words of `Reads`, packed, Tensor, Parameter) */
static PyObject *reader_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *types[2];
    const char *words;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(given, "y#OO", &words, &size, types, types + 1))
        return NULL;
    if (size != (Py_ssize_t)offsetof(Reads, types))
        return PyErr_Format(PyExc_TypeError, "takes %zu bytes", offsetof(Reads, types));
    Reader *self = called_alloc(type, NULL, &reader_kind);
    if (self == NULL)
        return NULL;
    memcpy(&self->reads, words, (size_t)size);
    for (int k = 0; k < 2; k++)
        self->reads.types[k] = Py_NewRef(types[k]);
    return (PyObject *)self;
}

/* Nothing else has a handle there, so who calls this knows that it is a tensor. */
static PyObject *reader_keys(PyObject *self, PyObject *tensor)
{
    return PyLong_FromUnsignedLongLong(keys_of(&((Reader *)self)->reads, tensor));
}

static PyObject *reader_changed(PyObject *self, PyObject *const *tensors, Py_ssize_t count)
{
    for (Py_ssize_t k = 0; k < count; k++)
        raise_version(&((Reader *)self)->reads, tensors[k]);
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"keys", reader_keys, METH_O, "(tensor): its dispatch keys."},
    {"changed", (PyCFunction)(void (*)(void))reader_changed, METH_FASTCALL, "(*tensors): they were written."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads tensors of torch."},
    {Py_tp_new, reader_new},
    {Py_tp_methods, reader_methods},
    {Py_tp_dealloc, called_dealloc},
    {Py_tp_traverse, called_traverse},
    {0, NULL},
};
static PyType_Spec reader_spec = {
    "snap.native.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, reader_slots};

static PyTypeObject *reader_type; /* once there is one */

typedef enum { NOT_ASKED, BYTES, SHAPE } Asked;

/* A parameter.  asked: what `fits` asks of an array; of a number: whether it does. */
typedef struct {
    char kind; /* 'P': an array; else a number's letter */
    int32_t asked, constant, dtype;
    int64_t bytes, widest; /* of an element; what the address must be a multiple of */
} Param;

_Static_assert(sizeof(Param) == 32 && offsetof(Param, asked) == 4 && offsetof(Param, bytes) == 16, "launches.py");

typedef struct {
    uint64_t address, bytes;
} Range;

typedef struct {
    int64_t count, words[MOST_WORDS];
} Key;

/* Reads a tensor into `range`, and into `key` what is asked of it. */
static Outcome read_tensor(const Reads *reads, const Param *param, int32_t device_type, int32_t device, PyObject *arg,
                           Range *range, Key *key)
{
    if ((PyObject *)Py_TYPE(arg) != reads->types[0] && (PyObject *)Py_TYPE(arg) != reads->types[1])
        return OTHERS;
    if ((keys_of(reads, arg) & reads->looked_at) != reads->plain)
        return OTHERS;
    void *handle = (char *)arg + reads->handle;
    int32_t dtype, type, number;
    int64_t dim, *sizes, *strides, elements = 1, expected = 1;
    int contiguous = 1;
    if (reads->dtype(handle, &dtype) || dtype != param->dtype || reads->device_type(handle, &type) ||
        type != device_type || reads->device(handle, &number) || number != device || reads->dim(handle, &dim) ||
        reads->sizes(handle, &sizes) || reads->strides(handle, &strides))
        return OTHERS;
    if (param->asked == SHAPE) {
        if (key->count + dim >= MOST_WORDS)
            return OTHERS;
        key->words[key->count++] = dim;
        memcpy(key->words + key->count, sizes, 8 * (size_t)dim);
        key->count += dim;
    }
    for (int64_t k = dim - 1; k >= 0; k--) { /* as torch's is_contiguous() */
        elements *= sizes[k];
        if (sizes[k] != 1) {
            contiguous &= strides[k] == expected;
            expected *= sizes[k];
        }
    }
    if (!contiguous && elements)
        return OTHERS;
    range->bytes = (uint64_t)(elements * param->bytes);
    if (param->asked == BYTES) {
        if (key->count >= MOST_WORDS)
            return OTHERS;
        key->words[key->count++] = (int64_t)range->bytes;
    }
    if (!find_memory(reads, arg, param->bytes, (int64_t)range->bytes, &range->address) && range->bytes)
        return OTHERS;
    if (range->address % (uint64_t)param->widest)
        return OTHERS;
    return param->constant ? MADE : unwatched(reads, arg);
}
