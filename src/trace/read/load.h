/* Traces from files: weir's own (load_weir.c) and profiles of others (import.c). */
#ifndef WEIR_TRACE_READ_LOAD_H
#define WEIR_TRACE_READ_LOAD_H

#include "trace/read/event.h"
#include "trace/record/store.h"

/* weir's description of devices and streams, before any event. */
void weir__load_description(struct weir__json *j, weir_trace *t);
/* An event that weir wrote. */
void weir__load_event(struct weir__json *j, weir_trace *t, const struct weir__event *e);
/* All events are there: what refers to what. */
void weir__load_finish(struct weir__json *j, weir_trace *t);

/* What a profile of others had, until all of it is known. */
struct weir__import;
struct weir__import *weir__import_new(weir_trace *t);
void weir__import_free(struct weir__import *im);
/* All of them set j->bad on an error. */
void weir__import_event(struct weir__json *j, struct weir__import *im, const struct weir__event *e);
/* The profile's list of devices, and which rank it is of. */
void weir__import_devices(struct weir__json *j, struct weir__import *im);
void weir__import_rank(struct weir__json *j, struct weir__import *im);
void weir__import_finish(struct weir__json *j, struct weir__import *im);

#endif
