/* The parts of `weir trace watch`: the connection to the watched program, and the server for the
 * browser. */
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
    bool ended; /* the program has closed the connection */
    char *text; /* the last received trace; NULL for none yet */
    size_t size;
    unsigned version; /* of that text, from 1 on */
    char error[160];  /* the error that it sent instead of a trace */
};

/* Connects if the program accepts connections by now. */
void watched_meet(struct watched *w);
/* Asks for the trace and waits for it for a few seconds at most. */
void watched_ask(struct watched *w);
/* Receives what the program sends without being asked: its last trace, then the end. */
void watched_hear(struct watched *w);
void watched_fini(struct watched *w);
/* Prints the programs that can be watched; returns their number. */
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

/* Listens on 127.0.0.1 only; port 0 means any free port. Returns false with errno set. */
bool watch_server_open(struct watch_server *s, int port);
void watch_server_close(struct watch_server *s);
/* Accepts a new connection. */
void watch_server_accept(struct watch_server *s, double now);
/* Reads more of the request. True when a request for the page is complete; refuses other
 * requests. */
bool watch_server_read(struct watch_server *s, struct watch_client *c);
/* Answers with an error, such as "404 Not Found", and closes. */
void watch_server_refuse(struct watch_client *c, const char *status);
/* Answers with the page and closes. `state` is the value of X-Weir-State. */
void watch_server_answer(struct watch_client *c, const char *page, size_t size, unsigned version,
                         const char *state);
/* Closes connections that have been silent for too long. */
void watch_server_expire(struct watch_server *s, double now);

#endif
