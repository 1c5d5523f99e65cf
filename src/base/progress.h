/* How far long work of the library has come, for a program that wants to show it.
 *
 * A thread says who is to be told, calls what takes long, and takes that back. The work
 * tells now and then, from the same thread, so what is told may not call the library again.
 */
#ifndef WEIR_BASE_PROGRESS_H
#define WEIR_BASE_PROGRESS_H

/* `doing` is a few words for people, of static storage; `share` is of 0 to 1, and may begin
 * anew with other words. */
typedef void (*weir__progress_fn)(void *user, const char *doing, double share);

/* NULL: nobody. Of the calling thread. */
void weir__progress_set(weir__progress_fn tell, void *user);
/* Nothing where nobody asked. Not for every step: it costs a call. */
void weir__progress_report(const char *doing, double share);

#endif
