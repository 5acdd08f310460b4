/* Tensors of torch, read by its C functions. */

/* torch's C functions; each gives 0 where it has stored what it was asked for. */
typedef int32_t (*Read32)(void *handle, int32_t *);
typedef int32_t (*Read64)(void *handle, int64_t *);
typedef int32_t (*ReadMany)(void *handle, int64_t **);
typedef int32_t (*ReadAddress)(void *handle, void **);

/* Where a tensor's dispatch keys lie: an object of Python has the address of an object of C++ in it, which has them.
   They say what kind of tensor it is: on which kind of device, strided or sparse, lazily negated, nested, quantized, one
   of zeros without memory, one that a transform has wrapped.  And what tells whether it has memory. */
typedef struct {
    Py_ssize_t handle, keys;
    ReadAddress data;
    Read64 offset;  /* of its first element in its storage, in elements */
    Read64 storage; /* the bytes of that */
} Places;

static const char *object_of(Py_ssize_t handle, PyObject *tensor)
{
    const char *object;
    memcpy(&object, (const char *)tensor + handle, sizeof object);
    return object;
}

static uint64_t keys_of(const Places *places, PyObject *tensor)
{
    uint64_t keys;
    memcpy(&keys, object_of(places->handle, tensor) + places->keys, sizeof keys);
    return keys;
}

/* Stores the address of a tensor's first element.  0: it has no memory.  The storage may have been taken from it, and
   what torch calls its address then is the offset alone; or have been made shorter than the tensor is, which takes
   `reach` bytes of elements of `bytes`. */
static int find_memory(const Places *places, PyObject *tensor, int64_t bytes, int64_t reach, uint64_t *address)
{
    void *handle = (char *)tensor + places->handle, *data;
    int64_t offset, storage;
    *address = 0;
    if (places->data(handle, &data))
        return 0;
    *address = (uint64_t)(uintptr_t)data;
    return !places->offset(handle, &offset) && *address != (uint64_t)(offset * bytes) &&
           !places->storage(handle, &storage) && offset * bytes + reach <= storage;
}

/* Where torch counts what is written into a tensor: an object, whose address a tensor has, if versions are counted at
   all, and the version in it.  And where a tensor has the address of what autograd knows of it, if that is anything. */
typedef struct {
    Py_ssize_t counter, version, record;
    int8_t (*gradients_enabled)(void);
} Counters;

static PyObject *requires_grad; /* the attribute's name */

/* Whether writing into it would escape autograd: it requires a gradient, and gradients are enabled. */
static Outcome unwatched(const Places *places, const Counters *counters, PyObject *tensor)
{
    void *record;
    memcpy(&record, object_of(places->handle, tensor) + counters->record, sizeof record);
    if (record == NULL || !counters->gradients_enabled())
        return MADE;
    PyObject *said = PyObject_GetAttr(tensor, requires_grad);
    if (said == NULL)
        return after_error();
    Py_DECREF(said);
    return said == Py_False ? MADE : OTHERS;
}

/* The tensor was written: what autograd has kept of it is not what it was. */
static void raise_version(const Places *places, const Counters *counters, PyObject *tensor)
{
    char *counter;
    memcpy(&counter, object_of(places->handle, tensor) + counters->counter, sizeof counter);
    if (counter != NULL)
        __atomic_fetch_add((uint32_t *)(counter + counters->version), 1, __ATOMIC_SEQ_CST);
}

typedef struct {
    Read32 dtype, device_type, device;
    Read64 dim;
    ReadMany sizes, strides;
    Places places;
    Counters counters;
    uint64_t looked_at, plain; /* keys that count, and which of them a tensor has that is nothing but its memory */
    PyObject *types[2];        /* Tensor, Parameter: subclasses may mean anything */
} Reads;

/* places: (handle, keys, data, offset, storage) */
static int places_of(Places *places, PyObject *given)
{
    unsigned long long data, offset, storage;
    if (!PyArg_ParseTuple(given, "nnKKK", &places->handle, &places->keys, &data, &offset, &storage))
        return 0;
    places->data = (ReadAddress)(uintptr_t)data;
    places->offset = (Read64)(uintptr_t)offset;
    places->storage = (Read64)(uintptr_t)storage;
    return 1;
}

/* counters: (counter, version, record, gradients_enabled) */
static int counters_of(Counters *counters, PyObject *given)
{
    unsigned long long enabled;
    if (!PyArg_ParseTuple(given, "nnnK", &counters->counter, &counters->version, &counters->record, &enabled))
        return 0;
    counters->gradients_enabled = (int8_t (*)(void))(uintptr_t)enabled;
    return 1;
}

/* reads: (the six functions, places, counters, Tensor, Parameter); plain: (looked_at, plain) */
static int reads_of(Reads *reads, PyObject *given, PyObject *plain)
{
    unsigned long long f[6], looked_at, wanted;
    PyObject *places, *counters, *tensor, *parameter;
    if (!PyArg_ParseTuple(given, "KKKKKKO!O!OO", f, f + 1, f + 2, f + 3, f + 4, f + 5, &PyTuple_Type, &places,
                          &PyTuple_Type, &counters, &tensor, &parameter) ||
        !places_of(&reads->places, places) || !counters_of(&reads->counters, counters) ||
        !PyArg_ParseTuple(plain, "KK", &looked_at, &wanted))
        return 0;
    reads->looked_at = looked_at;
    reads->plain = wanted;
    reads->dtype = (Read32)(uintptr_t)f[0];
    reads->device_type = (Read32)(uintptr_t)f[1];
    reads->device = (Read32)(uintptr_t)f[2];
    reads->dim = (Read64)(uintptr_t)f[3];
    reads->sizes = (ReadMany)(uintptr_t)f[4];
    reads->strides = (ReadMany)(uintptr_t)f[5];
    reads->types[0] = Py_NewRef(tensor);
    reads->types[1] = Py_NewRef(parameter);
    return 1;
}

typedef enum { NOT_ASKED, BYTES, SHAPE } Asked;

/* A parameter.  asked: what `fits` asks of an array; of a number: whether it does. */
typedef struct {
    char kind; /* 'P': an array; else a number's letter */
    Asked asked;
    int constant;
    int32_t dtype;
    int64_t bytes, widest; /* of an element; what the address must be a multiple of */
} Param;

typedef struct {
    uint64_t address, bytes;
} Range;

typedef struct {
    int count;
    int64_t words[MOST_WORDS];
} Key;

/* Reads a tensor into `range`, and into `key` what is asked of it. */
static Outcome read_tensor(const Reads *reads, const Param *param, int32_t device_type, int32_t device, PyObject *arg,
                           Range *range, Key *key)
{
    if ((PyObject *)Py_TYPE(arg) != reads->types[0] && (PyObject *)Py_TYPE(arg) != reads->types[1])
        return OTHERS;
    if ((keys_of(&reads->places, arg) & reads->looked_at) != reads->plain)
        return OTHERS;
    void *handle = (char *)arg + reads->places.handle;
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
        key->count += (int)dim;
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
    if (!find_memory(&reads->places, arg, param->bytes, (int64_t)range->bytes, &range->address) && range->bytes)
        return OTHERS;
    if (range->address % (uint64_t)param->widest)
        return OTHERS;
    return param->constant ? MADE : unwatched(&reads->places, &reads->counters, arg);
}
