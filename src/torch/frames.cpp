// Where in the Python program an operator was called, without headers or libraries of Python: the
// functions are those of the interpreter that the process runs in.
#include <dlfcn.h>

#include <cstdio>

#include "torch/session.h"

namespace dtrt
{

namespace
{

struct Python {
    int (*is_initialized)();
    int (*ensure)();
    void (*release)(int);
    void *(*get_frame)(); // borrowed
    void *(*get_code)(void *);
    void *(*get_back)(void *);
    int (*get_line)(void *);
    void *(*get_attribute)(void *, const char *);
    const char *(*as_utf8)(void *);
    void (*incref)(void *);
    void (*decref)(void *);
    void (*clear_error)();
    bool works;

    Python()
    {
        works = find(is_initialized, "Py_IsInitialized") && find(ensure, "PyGILState_Ensure") &&
                find(release, "PyGILState_Release") && find(get_frame, "PyEval_GetFrame") &&
                find(get_code, "PyFrame_GetCode") && find(get_back, "PyFrame_GetBack") &&
                find(get_line, "PyFrame_GetLineNumber") &&
                find(get_attribute, "PyObject_GetAttrString") &&
                find(as_utf8, "PyUnicode_AsUTF8") && find(incref, "Py_IncRef") &&
                find(decref, "Py_DecRef") && find(clear_error, "PyErr_Clear");
    }
    template <typename F> static bool find(F &function, const char *name)
    {
        function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
        return function != nullptr;
    }
};

const Python &python()
{
    static const Python p;
    return p;
}

// A line of a function; its text is made once, while the interpreter is at hand.
struct Place {
    void *code;
    int line;
    std::string text;
};

struct Places {
    std::mutex mutex;
    std::unordered_map<uint64_t, Place *> by_line;
};

Places &places()
{
    static Places *p = new Places;
    return *p;
}

std::string attribute(void *object, const char *name)
{
    const Python &p = python();
    void *value = p.get_attribute(object, name);
    const char *text = value ? p.as_utf8(value) : nullptr;
    std::string result = text ? text : "?";
    if (!text)
        p.clear_error();
    if (value)
        p.decref(value);
    return result;
}

Place *place_of(void *code, int line)
{
    uint64_t key = ((uint64_t)(uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)line;
    std::lock_guard<std::mutex> guard(places().mutex);
    Place *&place = places().by_line[key];
    if (!place) {
        std::string file = attribute(code, "co_filename"), name = attribute(code, "co_name");
        size_t slash = file.rfind('/');
        python().incref(code); // so that its address stays its own
        place = new Place{code, line,
                          name + " (" + file.substr(slash == std::string::npos ? 0 : slash + 1) +
                              ":" + std::to_string(line) + ")"};
    }
    return place;
}

thread_local void *captured[64];
thread_local int n_captured;

} // namespace

// Called before the session's lock is taken: the interpreter's lock may have to be waited for.
void capture_python_stack(int depth)
{
    const Python &p = python();
    n_captured = 0;
    if (!p.works || !p.is_initialized())
        return;
    int state = p.ensure();
    void *frame = p.get_frame();
    if (frame)
        p.incref(frame);
    while (frame && n_captured < depth && n_captured < 64) {
        void *code = p.get_code(frame), *back = p.get_back(frame);
        captured[n_captured++] = place_of(code, p.get_line(frame));
        p.decref(code);
        p.decref(frame);
        frame = back;
    }
    if (frame)
        p.decref(frame);
    p.release(state);
}

int python_stack(void *, void **out_keys, int n)
{
    int i = 0;
    for (; i < n_captured && i < n; i++)
        out_keys[i] = captured[i];
    return i;
}

void python_describe(void *, void *key, char *text, size_t size)
{
    std::snprintf(text, size, "%s", static_cast<Place *>(key)->text.c_str());
}

} // namespace dtrt
