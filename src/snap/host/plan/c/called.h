/* Objects that are called: what their types have in common. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum { MOST_HELD = 12 };

/* A kind of object.  drop: gives up what can lead back to the object, and what is not one of `held`. */
typedef struct {
    void (*drop)(PyObject *);
    size_t held[MOST_HELD]; /* where references to other objects lie; 0 ends them */
} Kind;

/* What each such object begins with. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Kind *kind;
} Called;

static PyObject **held_at(PyObject *object, int k)
{
    const Kind *kind = ((Called *)object)->kind;
    return kind == NULL || k == MOST_HELD || !kind->held[k] ? NULL : (PyObject **)((char *)object + kind->held[k]);
}

static int called_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    PyObject **held;
    for (int k = 0; (held = held_at(object, k)) != NULL; k++)
        Py_VISIT(*held);
    return 0;
}

static int called_clear(PyObject *object)
{
    const Kind *kind = ((Called *)object)->kind;
    if (kind != NULL && kind->drop != NULL)
        kind->drop(object);
    return 0;
}

static void called_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    called_clear(object);
    PyObject **held;
    for (int k = 0; (held = held_at(object, k)) != NULL; k++)
        Py_XDECREF(*held);
    type->tp_free(object);
    Py_DECREF(type);
}

static void *called_alloc(PyTypeObject *type, vectorcallfunc call, const Kind *kind)
{
    Called *made = (Called *)type->tp_alloc(type, 0);
    if (made != NULL) {
        made->vectorcall = call;
        made->kind = kind;
    }
    return made;
}

static PyMemberDef called_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Called, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define CALLED_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL)
#define CALLED_SLOTS(doc, make, members) \
    {{Py_tp_doc, doc},                   {Py_tp_new, make},           {Py_tp_members, members}, \
     {Py_tp_dealloc, called_dealloc},    {Py_tp_clear, called_clear}, {Py_tp_traverse, called_traverse}, \
     {Py_tp_call, PyVectorcall_Call},    {0, NULL}}
