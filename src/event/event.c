#include "dtr/event.h"

#define INFO_FIELD(name, unit, meaning)  {#name, DTR_UNIT_##unit, meaning},
#define FIELD_COUNT(name, unit, meaning) +1
#define INFO_KIND(NAME, name, number, meaning)                                                     \
    {(dtr_event_kind)(number),                                                                     \
     #name,                                                                                        \
     meaning,                                                                                      \
     0 DTR_FIELDS_##NAME(FIELD_COUNT),                                                             \
     {DTR_FIELDS_##NAME(INFO_FIELD)}},

static const dtr_event_info infos[] = {DTR_EVENT_KINDS(INFO_KIND)};

#define CHECK_KIND(NAME, name, number, meaning)                                                    \
    _Static_assert(sizeof(dtr_event_##name) <= sizeof(int64_t) * DTR_EVENT_MAX_FIELDS,             \
                   #name " has too many fields");
DTR_EVENT_KINDS(CHECK_KIND)

const dtr_event_info *dtr_event_infos(int *out_n)
{
    *out_n = (int)(sizeof infos / sizeof infos[0]);
    return infos;
}

const dtr_event_info *dtr_event_info_of(int64_t kind)
{
    for (unsigned i = 0; i < sizeof infos / sizeof infos[0]; i++)
        if (infos[i].kind == kind)
            return &infos[i];
    return NULL;
}
