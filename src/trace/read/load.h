/* Reads traces from files: weir's own (load_weir.c) and profiles of other tools (import.c). */
#ifndef WEIR_TRACE_READ_LOAD_H
#define WEIR_TRACE_READ_LOAD_H

#include "trace/read/event.h"
#include "trace/record/store.h"

/* Reads weir's description of devices and streams, which precedes the events. */
void weir__load_description(struct weir__json *j, weir_trace *t);
/* Adds an event that weir wrote. */
void weir__load_event(struct weir__json *j, weir_trace *t, const struct weir__event *e);
/* Resolves references between events, after the last event. */
void weir__load_finish(struct weir__json *j, weir_trace *t);

/* The events of another tool's profile, until all of them have been read. */
struct weir__import;
struct weir__import *weir__import_new(weir_trace *t);
void weir__import_free(struct weir__import *im);
/* All of these set j->bad on an error. */
void weir__import_event(struct weir__json *j, struct weir__import *im, const struct weir__event *e);
/* Read the profile's list of devices, and the rank that recorded it. */
void weir__import_devices(struct weir__json *j, struct weir__import *im);
void weir__import_rank(struct weir__json *j, struct weir__import *im);
void weir__import_finish(struct weir__json *j, struct weir__import *im);

#endif
