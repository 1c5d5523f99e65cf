/* The races that were found, in the form that users get. Callers hold the checker's lock. */
#ifndef WEIR_CHECK_RACE_FOUND_H
#define WEIR_CHECK_RACE_FOUND_H

#include "check/race/watch.h"

struct weir__race_found {
    weir_race *at;
    int n, cap;
};

/* Copies the text, truncated to `size`. */
void weir__race_copy_text(char *to, size_t size, const char *text);
weir_race_access weir__race_access(const struct weir__race_record *r, const char *stream,
                                   const char *device);
/* Counts the race if one of the same place is known, else stores it. False if there is no room. */
bool weir__race_keep(struct weir__race_found *f, const weir_race *race);
/* Describes all races. `operators` were checked; `lost` records were dropped. */
void weir__race_report_all(struct weir__text *text, const struct weir__race_found *f,
                           uint64_t operators, uint64_t lost);

#endif
