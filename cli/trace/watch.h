/* The parts of `weir trace watch`: the program that is watched, and the browser that looks. */
#ifndef WEIR_CLI_TRACE_WATCH_H
#define WEIR_CLI_TRACE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- the program (watch_program.c) ---- */

struct watched {
    pid_t pid;
    char folder[96];
    int socket; /* -1: not connected */
    bool met;   /* was connected once */
    bool ended; /* it has left */
    char *text; /* its trace as it sent it last; NULL for none yet */
    size_t size;
    unsigned version; /* of that text, from 1 on */
    char error[160];  /* what it said instead */
};

/* Connects if that is possible by now. */
void watched_meet(struct watched *w);
/* Asks for the trace and waits for it, seconds at most. */
void watched_ask(struct watched *w);
/* Takes what it sends unasked: its last trace, then nothing. */
void watched_hear(struct watched *w);
void watched_fini(struct watched *w);
/* Prints who can be watched; returns how many. */
int watched_list(const char *folder);

/* ---- the browser (watch_http.c) ---- */

enum { WATCH_CLIENTS = 16 };

struct watch_client {
    int socket; /* -1: free */
    double since;
    size_t size;
    char request[4096];
};

struct watch_server {
    int listener, port;
    char token[33];
    struct watch_client clients[WATCH_CLIENTS];
};

/* On 127.0.0.1 only; port 0 for any. False with errno. */
bool watch_server_open(struct watch_server *s, int port);
void watch_server_close(struct watch_server *s);
/* A new connection. */
void watch_server_accept(struct watch_server *s, double now);
/* Reads on. True when a request for the page is complete; others are refused here. */
bool watch_server_read(struct watch_server *s, struct watch_client *c);
/* Answers with an error, such as "404 Not Found", and closes. */
void watch_server_refuse(struct watch_client *c, const char *status);
/* Answers it and closes. `state` is what X-Weir-State says. */
void watch_server_answer(struct watch_client *c, const char *page, size_t size, unsigned version,
                         const char *state);
/* Closes connections that have said nothing for long. */
void watch_server_expire(struct watch_server *s, double now);

#endif
