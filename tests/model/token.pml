/* The token of a stream, run queues, stealing, and workers that sleep: a model for SPIN of
 * src/soft/runq.h, src/soft/queue.c (added, surrender) and src/cpu/{pick,rest,threads}.c.
 *
 * A host thread queues COMMANDS commands on each of two streams, round robin. Two workers run
 * them. The first command of stream 0 is long: so long that all of stream 1 can run meanwhile,
 * which it waits for here. There are two hardware threads, so that a worker that is woken may stand by
 * until the host sleeps. The limit on that time and the wake by a host that goes to sleep are left out,
 * so that nothing rests on them. What must hold:
 *   - a stream has one holder at a time, and its commands run once each, in order;
 *   - everything that was queued runs: the host, which waits for all of it, is never stuck.
 *
 * SPIN is sequentially consistent. A fence that is taken out is written as what it would allow:
 * the load that follows a store is done before it. Each MUTANT is such a line, and must fail:
 *   1  who adds looks for sleepers before the queue says that it is filled
 *   2  who goes to sleep looks for work before it counts as a sleeper, and not after
 *   3  who goes to sleep reads the word of the futex after that look
 *   4  who starts something long looks for work before it ceases to be attentive
 *   5  surrender takes the count back without looking at what it was
 *   6  the queue is taken from without its lock
 *   7  before something long, streams that were taken in one go are not put back
 *   8  who ceases to sleep leaves somebody on the way behind
 *   9  a host that goes to sleep looks for whoever stands by before it counts as asleep
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define COMMANDS 2
#define NSTREAMS 2
#define NWORKERS 2
#define TOTAL (COMMANDS * NSTREAMS)

byte pending[NSTREAMS];
byte home[NSTREAMS];
byte holder[NSTREAMS];           /* 0: nobody; else worker + 1 */
byte ran[NSTREAMS];              /* commands that have run */
bool in_queue[NWORKERS * NSTREAMS]; /* run queues, as sets */
byte filled[NWORKERS];
bool locked[NWORKERS];
byte sleepers, on_the_way; /* two halves of one word */
byte attentive, word;
bool host_asleep, standby;
bool asleep[NWORKERS];
byte finished;

#define IN(q, s) in_queue[(q) * NSTREAMS + (s)]
#define HAS_WORK (filled[0] || filled[1])
#define UPDATE_FILLED(q) filled[q] = IN(q, 0) + IN(q, 1)

inline lock(q) { atomic { !locked[q]; locked[q] = true } }
inline unlock(q) { locked[q] = false }

/* weir__cpu_wake. */
inline wake_one()
{
    woken = false;
    if
    :: sleepers > 0 ->
        if
        :: attentive == 0 ->
            work = filled[0];
            work = work + filled[1];
            atomic {
                if
                :: on_the_way < sleepers && on_the_way < work -> on_the_way++; woken = true
                :: else -> skip
                fi
            }
        :: else -> skip
        fi
    :: else -> skip
    fi;
    if
    :: woken ->
        word++;
        atomic {
            if
            :: asleep[0] -> asleep[0] = false
            :: asleep[1] -> asleep[1] = false
            :: else -> skip
            fi
        }
    :: else -> skip
    fi
}

inline get_up()
{
    atomic {
        sleepers--;
#if MUTANT != 8
        if
        :: on_the_way > 0 -> on_the_way--
        :: else -> skip
        fi
#endif
    }
}

/* weir__runq_offer, then kick. */
inline make_ready(s)
{
    lock(home[s]);
    IN(home[s], s) = true;
#if MUTANT == 1
    unlock(home[s]);
    wake_one();
    UPDATE_FILLED(home[s]);
#else
    UPDATE_FILLED(home[s]);
    unlock(home[s]);
    wake_one();
#endif
}

proctype host()
{
    byte s, n, old, work;
    bool woken, seen;

    for (n : 1 .. COMMANDS) {
        for (s : 0 .. NSTREAMS - 1) {
            atomic { old = pending[s]; pending[s]++ }
            if
            :: old == 0 -> make_ready(s)
            :: else -> skip
            fi
        }
    }
#if MUTANT == 9
    seen = standby;
    host_asleep = true;
#else
    host_asleep = true;
    seen = standby;
#endif
    if
    :: seen -> standby = false
    :: else -> skip
    fi;
    (finished == TOTAL)
}

/* A stream out of the set of queue q, or none. */
inline take(q, s)
{
    if
    :: filled[q] ->
#if MUTANT == 6
        if
        :: IN(q, 0) -> s = 0; IN(q, 0) = false
        :: else ->
            if
            :: IN(q, 1) -> s = 1; IN(q, 1) = false
            :: else -> skip
            fi
        fi;
        UPDATE_FILLED(q)
#else
        lock(q);
        if
        :: IN(q, 0) -> s = 0; IN(q, 0) = false
        :: !IN(q, 0) && IN(q, 1) -> s = 1; IN(q, 1) = false
        :: else -> skip
        fi;
        UPDATE_FILLED(q);
        unlock(q)
#endif
    :: else -> skip
    fi
}

#define NONE NSTREAMS

proctype worker(byte me)
{
    byte s, seen, consumed, work;
    bool woken;
    byte other = 1 - me;
    byte batch = NONE; /* the second stream, taken together with the first */
    bool is_attentive = false, mine;

look:
    s = batch;
    batch = NONE;
    if
    :: s != NONE -> goto have
    :: else -> skip
    fi;
    take(me, s);
    if
    :: s != NONE && is_attentive -> take(me, batch) /* all of it */
    :: else -> skip
    fi;
    if
    :: s == NONE -> take(other, s)
    :: else -> skip
    fi;
    if
    :: s != NONE -> goto have
    :: else -> skip
    fi;
    /* rest */
    if
    :: !is_attentive -> attentive++; is_attentive = true
    :: else -> skip
    fi;
    if
    :: HAS_WORK -> goto look
    :: skip /* has spun long enough */
    fi;
#if MUTANT != 3
    seen = word;
#endif
    attentive--;
    is_attentive = false;
#if MUTANT == 2
    if
    :: HAS_WORK -> goto look
    :: else -> skip
    fi;
    sleepers++;
#else
    sleepers++;
    if
    :: HAS_WORK -> get_up(); goto look
    :: else -> skip
    fi;
#endif
#if MUTANT == 3
    seen = word;
#endif
end_asleep:
    atomic {
        if
        :: word == seen -> asleep[me] = true
        :: else -> skip
        fi
    }
end_wait:
    !asleep[me];
    get_up();
    if
    :: sleepers - on_the_way == 0 && !host_asleep && !standby ->
        standby = true;
        if
        :: host_asleep -> standby = false
        :: else -> !standby
        fi
    :: true
    fi;
    goto look;

have:
    atomic {
        assert(holder[s] == 0);
        holder[s] = me + 1;
        home[s] = me
    }
    consumed = 0;
next:
    do
    :: pending[s] > consumed ->
        if
        :: s == 0 && ran[0] == 0 -> /* long */
#if MUTANT != 7
            if
            :: batch != NONE ->
                lock(me);
                IN(me, batch) = true;
                UPDATE_FILLED(me);
                unlock(me);
                batch = NONE
            :: else -> skip
            fi;
#endif
#if MUTANT == 4
            wake_one();
#endif
            if
            :: is_attentive -> attentive--; is_attentive = false
            :: else -> skip
            fi;
#if MUTANT != 4
            wake_one();
#endif
            ran[1] == COMMANDS
        :: else ->
            if
            :: !is_attentive -> attentive++; is_attentive = true
            :: else -> skip
            fi
        fi;
        atomic {
            assert(holder[s] == me + 1);
            ran[s]++;
            assert(ran[s] <= COMMANDS);
            finished++
        }
        consumed++
    :: else -> break
    od;
    /* surrender */
#if MUTANT == 5
    holder[s] = 0;
    pending[s] = pending[s] - consumed;
    goto look;
#else
    atomic {
        mine = pending[s] != consumed;
        pending[s] = pending[s] - consumed;
        holder[s] = (mine -> holder[s] : 0)
    }
    consumed = 0;
    if
    :: mine -> goto next
    :: else -> goto look
    fi
#endif
}

init
{
    atomic {
        home[0] = 0;
        home[1] = 0; /* so that somebody has to steal it */
        run host();
        run worker(0);
        run worker(1)
    }
}
