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
    Read64 offset; /* of its first element in its storage, in elements */
} Places;

static uint64_t keys_of(const Places *places, PyObject *tensor)
{
    const char *object;
    uint64_t keys;
    memcpy(&object, (const char *)tensor + places->handle, sizeof object);
    memcpy(&keys, object + places->keys, sizeof keys);
    return keys;
}

enum { STORAGE_BITS = 46 }; /* no storage has 2^46 bytes, 64 TiB */

/* Stores the address of a tensor's first element.  0: it has no memory.  The storage may have been taken from it, and
   what torch calls its address then is the offset alone, which is less than the storage was long. */
static int find_memory(const Places *places, PyObject *tensor, int64_t bytes, uint64_t *address)
{
    void *handle = (char *)tensor + places->handle, *data;
    int64_t offset;
    *address = 0;
    if (places->data(handle, &data))
        return 0;
    *address = (uint64_t)(uintptr_t)data;
    if (*address >> STORAGE_BITS)
        return 1;
    return !places->offset(handle, &offset) && *address != (uint64_t)(offset * bytes);
}

typedef struct {
    Read32 dtype, device_type, device;
    Read64 dim;
    ReadMany sizes, strides;
    Places places;
    uint64_t looked_at, plain; /* keys that count, and which of them a tensor has that is nothing but its memory */
    PyObject *types[2];        /* Tensor, Parameter: subclasses may mean anything */
} Reads;

/* places: (handle, keys, data, offset) */
static int places_of(Places *places, PyObject *given)
{
    unsigned long long data, offset;
    if (!PyArg_ParseTuple(given, "nnKK", &places->handle, &places->keys, &data, &offset))
        return 0;
    places->data = (ReadAddress)(uintptr_t)data;
    places->offset = (Read64)(uintptr_t)offset;
    return 1;
}

/* reads: (the six functions, places, Tensor, Parameter); plain: (looked_at, plain) */
static int reads_of(Reads *reads, PyObject *given, PyObject *plain)
{
    unsigned long long f[6], looked_at, wanted;
    PyObject *places, *tensor, *parameter;
    if (!PyArg_ParseTuple(given, "KKKKKKO!OO", f, f + 1, f + 2, f + 3, f + 4, f + 5, &PyTuple_Type, &places, &tensor,
                          &parameter) ||
        !places_of(&reads->places, places) || !PyArg_ParseTuple(plain, "KK", &looked_at, &wanted))
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
    if (!find_memory(&reads->places, arg, param->bytes, &range->address) && range->bytes)
        return OTHERS;
    return range->address % (uint64_t)param->widest == 0 ? MADE : OTHERS;
}
