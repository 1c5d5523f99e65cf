/* Ids of streams in a device whose stream slots are reused. */
#ifndef WEIR_CHECK_RACE_SLOTS_H
#define WEIR_CHECK_RACE_SLOTS_H

#include "check/race/watch.h"

/* True if the host has seen every command of the stream complete. Only then may another stream take
 * its slot: otherwise the order of the two would depend on timing. */
bool weir__race_has_seen(struct weir__race_stream s);
/* Another stream uses the slot from now on: it gets a new id. */
void weir__race_rename(struct weir__race_name *name);

#endif
