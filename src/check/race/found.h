/* Races that were found, as users get them. None of this locks. */
#ifndef WEIR_CHECK_RACE_FOUND_H
#define WEIR_CHECK_RACE_FOUND_H

#include "check/race/watch.h"

struct weir__race_found {
    weir_race *at;
    int n, cap;
};

/* Cut where it does not fit. */
void weir__race_copy_text(char *to, size_t size, const char *text);
weir_race_access weir__race_access(const struct weir__race_record *r, const char *stream,
                                   const char *device);
/* Counts the race with those of the same place, or keeps it. False if there is no room. */
bool weir__race_keep(struct weir__race_found *f, const weir_race *race);
/* All of them in words, of so many operators, with so many records given up. */
void weir__race_report_all(struct weir__text *text, const struct weir__race_found *f,
                           uint64_t operators, uint64_t lost);

#endif
