#include "export/export.h"

#include <string.h>

#define FORMAT_ENTRY(name) &dtri_export_##name,

const struct dtri_export_format *const *dtri_export_formats(void)
{
    static const struct dtri_export_format *const formats[] = {DTRI_EXPORT_FORMATS(FORMAT_ENTRY)
                                                                   NULL};
    return formats;
}

const struct dtri_export_format *dtri_export_find(const char *name)
{
    for (const struct dtri_export_format *const *f = dtri_export_formats(); *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}
