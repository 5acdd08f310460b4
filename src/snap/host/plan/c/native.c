/* Repeated launches in one call: what the functions that plans.py prints do in Python, done in C.

   Checked   a launch of a kernel with tensors of torch and numbers.  Every argument is read anew at every call and
             passes the checks of validate.py; whatever does not goes to `other`, the whole way in Python, which
             launches it or says what is wrong.  What is remembered are sizes and numbers for which `fits` has said
             that shapes and `where=` hold.
   Trusted   a launch whose arguments the caller has compared (trusted.py): addresses and tensor maps, put beside
             numbers that never change.
   Alike     whether tensors are like those of an earlier call, by torch's own comparison, which is asked only about
             tensors of the same kinds, with memory: it ends the process where it meets some others (likeness.py).
   Reader    what is known of this torch, which the others read tensors by: `keys` says what kind of tensor one is, as a
             number; `changed` tells torch that tensors were written, by raising their versions.

   Nothing of CUDA or of torch is included or linked.  The driver's function comes as an address.  Tensors are read by
   torch's C functions for compiled programs (aoti_torch_get_*, whose interface is kept from version to version), which
   come as addresses, too; where a tensor's handle lies in its object was found and tried by torchreads.py.

   Values are packed on the stack, so that threads share nothing: the driver has copied them when it returns.  The GIL
   is released around the driver's call alone. */

#include "called.h"
#include "launch.h"
#include "numbers.h"
#include "tensors.h"
#include "checked.h"
#include "trusted.h"
#include "alike.h"

static PyObject *not_explained(PyObject *module, PyObject *error)
{
    Py_XSETREF(gpu_error, Py_NewRef(error));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"not_explained", not_explained, METH_O, "The class of errors that are raised as they are."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    if (requires_grad == NULL && (requires_grad = PyUnicode_InternFromString("requires_grad")) == NULL)
        return -1;
    PyType_Spec *specs[] = {&checked_spec, &trusted_spec, &alike_spec, &reader_spec};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[k], NULL);
        if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        if (specs[k] == &reader_spec)
            Py_XSETREF(reader_type, (PyTypeObject *)Py_NewRef(type));
        Py_DECREF(type);
    }
    return PyModule_AddIntConstant(module, "MOST_VALUES", MOST_VALUES) < 0 ||
                   PyModule_AddIntConstant(module, "MOST_BYTES", MOST_BYTES - MAP_BYTES) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "snap_native",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_snap_native(void)
{
    return PyModuleDef_Init(&definition);
}
