/* What must not be left behind: by a rank that has left, and by all ranks of a case. */
#ifndef TESTS_PROCS_LEFT_H
#define TESTS_PROCS_LEFT_H

#include <stdbool.h>
#include <stddef.h>

/* Before ranks are started: notes what is there. Their descendants, whatever session they are in,
 * become this process's children when their parents end. */
void left_begin(void);
/* When all ranks have ended: waits for the other processes that they have started (observers, an
 * MPI's), which are ended if that takes too long, and looks for new names in /dev/shm. */
void expect_nothing_left(void);
/* The same, but names that begin so are not weir's: they are removed. */
void expect_nothing_left_but(const char *prefix);

/* ---- in a rank ---- */

/* Before it joins: notes its files and shared memory. */
void own_begin(void);
/* When it has left, and closed its device: true if it has more of them. `mine`: only weir's memory
 * counts, because an MPI or a driver keeps files of its own. */
bool own_find(bool mine, char *text, size_t size);

#endif
