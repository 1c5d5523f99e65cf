/* Progress reports of long operations, for programs that show them.
 *
 * A thread sets a function, starts the operation, and then resets the function. The operation calls
 * the function from time to time on the same thread. The function must not call the library.
 */
#ifndef WEIR_BASE_PROGRESS_H
#define WEIR_BASE_PROGRESS_H

/* `doing` is a short text in static storage; `share` is from 0 to 1. With another text `share`
 * starts again at 0. */
typedef void (*weir__progress_fn)(void *user, const char *doing, double share);

/* Sets the function of the calling thread; NULL: none. */
void weir__progress_set(weir__progress_fn tell, void *user);
/* Calls the thread's function, if it is set. Do not call this for every step: it costs a call. */
void weir__progress_report(const char *doing, double share);

#endif
