/* What a Python program needs to find the PyTorch adapter. */
#ifndef DTRI_CLI_PYTHON_H
#define DTRI_CLI_PYTHON_H

#include <stdbool.h>

/* Puts the directory whose sitecustomize.py starts the adapter, and that of the package, in front
 * of PYTHONPATH; does nothing where the adapter was not built.  For the child that is to be
 * recorded. */
void dtri_python_environment(void);

/* Whether a program is Python, by its name: python, python3.11, /usr/bin/python3. */
bool dtri_python_is(const char *program);
/* The option of a Python command (-I, -E, -S) with which it does not look where
 * dtri_python_environment points; 0: there is none. */
char dtri_python_deaf_by(char *const *command);

#endif
