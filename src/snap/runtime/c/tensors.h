/* Tensors of torch, read by its C functions. */

/* torch's C functions; each gives 0 where it has stored what it was asked for. */
typedef int32_t (*Read32)(void *handle, int32_t *);
typedef int32_t (*Read64)(void *handle, int64_t *);
typedef int32_t (*ReadMany)(void *handle, int64_t **);
typedef int32_t (*ReadAddress)(void *handle, void **);

/* Where a tensor's dispatch keys lie: an object of Python has the address of an object of C++ in it, which has them.
   They say what kind of tensor it is: on which kind of device, strided or sparse, lazily negated, nested, quantized, one
   of zeros without memory, one that a transform has wrapped. */
typedef struct {
    Py_ssize_t handle, keys;
} Places;

static uint64_t keys_of(const Places *places, PyObject *tensor)
{
    const char *object;
    uint64_t keys;
    memcpy(&object, (const char *)tensor + places->handle, sizeof object);
    memcpy(&keys, object + places->keys, sizeof keys);
    return keys;
}

typedef struct {
    Read32 dtype, layout, device_type, device;
    Read64 dim;
    ReadMany sizes, strides;
    ReadAddress data;
    Places places;
    uint64_t looked_at, plain; /* keys that count, and which of them a tensor has that is nothing but its memory */
    int32_t strided;
    PyObject *types[2]; /* Tensor, Parameter: subclasses may mean anything */
} Reads;

/* reads: (the eight functions, handle, keys, strided, Tensor, Parameter); plain: (looked_at, plain) */
static int reads_of(Reads *reads, PyObject *given, PyObject *plain)
{
    unsigned long long f[8], looked_at, wanted;
    PyObject *tensor, *parameter;
    if (!PyArg_ParseTuple(given, "KKKKKKKKnniOO", f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6, f + 7,
                          &reads->places.handle, &reads->places.keys, &reads->strided, &tensor, &parameter) ||
        !PyArg_ParseTuple(plain, "KK", &looked_at, &wanted))
        return 0;
    reads->looked_at = looked_at;
    reads->plain = wanted;
    reads->dtype = (Read32)(uintptr_t)f[0];
    reads->layout = (Read32)(uintptr_t)f[1];
    reads->device_type = (Read32)(uintptr_t)f[2];
    reads->device = (Read32)(uintptr_t)f[3];
    reads->dim = (Read64)(uintptr_t)f[4];
    reads->sizes = (ReadMany)(uintptr_t)f[5];
    reads->strides = (ReadMany)(uintptr_t)f[6];
    reads->data = (ReadAddress)(uintptr_t)f[7];
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
    int32_t dtype, layout, type, number;
    int64_t dim, *sizes, *strides, elements = 1, expected = 1;
    void *data;
    int contiguous = 1;
    if (reads->dtype(handle, &dtype) || dtype != param->dtype || reads->layout(handle, &layout) ||
        layout != reads->strided || reads->device_type(handle, &type) || type != device_type ||
        reads->device(handle, &number) || number != device || reads->dim(handle, &dim) ||
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
    if (reads->data(handle, &data))
        return OTHERS;
    range->address = (uint64_t)(uintptr_t)data;
    int lies = range->address || !range->bytes; /* a tensor's storage may have been taken from it */
    return lies && range->address % (uint64_t)param->widest == 0 ? MADE : OTHERS;
}
