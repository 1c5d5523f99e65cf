/* Ids of streams whose slot is reused by another stream. */
#ifndef WEIR_CHECK_RACE_SLOTS_H
#define WEIR_CHECK_RACE_SLOTS_H

#include "check/race/watch.h"

/* Whether the host has seen every command of the stream over: only then may another stream take its
 * place, or whether the two are ordered would depend on when work was over. */
bool weir__race_has_seen(struct weir__race_stream s);
/* The stream's place is another stream's from now on. */
void weir__race_rename(struct weir__race_name *name);

#endif
