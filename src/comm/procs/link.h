/* Between the link (link.c), joining and leaving (join.c), and the way to the next hub (move.c).
 * Everything but weir__link_poke is called by the link's thread. */
#ifndef WEIR_COMM_PROCS_LINK_H
#define WEIR_COMM_PROCS_LINK_H

#include <poll.h>

#include "comm/procs/procs.h"

#define WEIR__LINK_STOPPED "is stopped (by a signal or a debugger)"
#define WEIR__LINK_SILENT_NS UINT64_C(20000000000)
#define WEIR__LINK_SILENT_FAR_NS UINT64_C(5000000000)

/* ---- link.c ---- */

/* The thread. */
void *weir__link_main(void *world);
/* Wakes the thread. */
void weir__link_poke(struct weir__world *world);
void weir__link_lose(struct weir__world *world, int rank, enum weir__gone how, const char *text);
/* Every other rank is lost, or with `host` not 0 those of that host; then `text` follows "rank N".
 */
void weir__link_lose_all(struct weir__world *world, uint64_t host, const char *text);
/* The hub's rank is gone: moves to the next hub, at once or, if it has left, a little later. */
void weir__link_lose_hub(struct weir__world *world, enum weir__gone how, const char *text);
/* There is no hub from now on, which the text explains. Fails the gathers that wait. */
void weir__link_be_alone(struct weir__world *world, const char *text);

/* ---- gathers.c ---- */

/* Ends the gathers of that key, or all gathers if `key` is NULL: with the blobs of all members, or
 * if `all` is NULL with an error. */
void weir__link_end_gathers(struct weir__world *world, const char *key,
                            const struct weir__wire_gathered *all, weir_status status,
                            const char *text);
/* Sends this rank's aborts and its gathers to the hub, which is a new one. Under conn_lock. */
void weir__link_tell_again(struct weir__world *world);

/* ---- join.c ---- */

/* What this rank says to the hub of rank `to`. */
struct weir__wire_hello weir__link_hello(const struct weir__world *world, enum weir__line line,
                                         int to);

/* ---- move.c ---- */

enum { WEIR__MOVE_LISTENER, WEIR__MOVE_NEXT, WEIR__MOVE_OLD, WEIR__MOVE_FDS };

/* The hub's rank is gone, and peers[] says how. */
void weir__move_begin(struct weir__world *world);
/* This rank alone has lost the others. */
void weir__move_end(struct weir__world *world, const char *text);
void weir__move_prepare_poll(struct weir__world *world, struct pollfd fds[WEIR__MOVE_FDS]);
/* Returns how long poll may take, at most `most` ms. */
int weir__move_pause_ms(const struct weir__world *world, int most);
void weir__move_serve(struct weir__world *world, const struct pollfd fds[WEIR__MOVE_FDS],
                      char *payload);

#endif
