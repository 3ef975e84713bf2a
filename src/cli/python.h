/* What a Python program needs to find the PyTorch adapter. */
#ifndef DTRI_CLI_PYTHON_H
#define DTRI_CLI_PYTHON_H

/* Puts the directory whose sitecustomize.py starts the adapter, and that of the package, in front
 * of PYTHONPATH; does nothing where the adapter was not built.  For the child that is to be
 * recorded. */
void dtri_python_environment(void);

#endif
