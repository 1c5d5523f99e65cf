/* A gang beside streams in run queues: a model for SPIN of src/cpu/pick.c, src/soft/runq.c and the
 * parts of src/soft/sched.c that grant cores.
 *
 * Two workers, two cores. Three streams have TURNS turns each; after a turn a stream is ready again.
 * A worker keeps its core from one stream of a run queue to the next. The gang needs both cores. It
 * arrives when it likes. What must hold:
 *   - at most BOUND turns begin between the gang's arrival and its start: those that each worker had
 *     already picked;
 *   - a stream has one holder at a time and gets all its turns: none is lost as queues are emptied;
 *   - the gang starts.
 *
 * Each MUTANT must fail:
 *   1  a worker takes from run queues although a gang waits
 *   2  queues are emptied without their lock
 *   3  the scheduler grants a core to a stream that arrived after the gang
 *   4  streams that are taken out of a queue are not put into the scheduler
 *   5  a worker keeps its core while the scheduler looks for a stream, and while it rests
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define TURNS 2
#define GANG 3
#define NONE 4
#define BOUND 2

bool in_queue[6]; /* worker * 3 + stream */
bool in_sched[4];
bool running[3];
bool sched_lock, gang_waits, gang_ran;
byte nfree = 2;
byte turns[3], overtaken, finished;

#define IN(w, s) in_queue[(w) * 3 + (s)]
#define HAS(w) (IN(w, 0) || IN(w, 1) || IN(w, 2))

inline lock() { atomic { !sched_lock; sched_lock = true } }
inline unlock() { sched_lock = false }

/* weir__runqs_empty. */
inline empty_queues()
{
    for (q : 0 .. 5) {
#if MUTANT == 2
        found = in_queue[q];
        in_queue[q] = false;
#else
        atomic {
            found = in_queue[q];
            in_queue[q] = false
        }
#endif
#if MUTANT != 4
        if
        :: found -> lock(); in_sched[q % 3] = true; unlock()
        :: else -> skip
        fi
#endif
    }
}

/* The gang becomes ready: weir__sched_add with WEIR__WANTS_GANG. */
proctype arrive()
{
    lock();
    in_sched[GANG] = true;
    gang_waits = true;
    unlock()
}

/* weir__soft_make_ready: the run queue of this worker, or the scheduler while a gang waits. The look
 * and the adding are two steps. */
inline make_ready(s)
{
    if
    :: gang_waits -> lock(); in_sched[s] = true; unlock()
    :: else -> IN(me, s) = true
    fi
}

/* weir__sched_pick after weir__sched_release. The gang closes the door behind itself; streams that
 * came before it may still start. */
inline from_scheduler()
{
    lock();
#if MUTANT != 5
    nfree = nfree + has_core;
    has_core = 0;
#endif
    if
    :: in_sched[GANG] && nfree == 2 ->
        in_sched[GANG] = false;
        gang_waits = false;
        nfree = 0;
        s = GANG
#if MUTANT == 3
#define MAY(x) (nfree && in_sched[x])
#else
#define MAY(x) (nfree && in_sched[x] && !in_sched[GANG])
#endif
    :: MAY(0) && !(in_sched[GANG] && nfree == 2) -> s = 0
    :: MAY(1) && !(in_sched[GANG] && nfree == 2) -> s = 1
    :: MAY(2) && !(in_sched[GANG] && nfree == 2) -> s = 2
    :: else -> s = NONE
    fi;
    if
    :: s < GANG ->
        in_sched[s] = false;
        if
        :: !has_core -> has_core = 1; nfree--
        :: else -> skip
        fi
    :: else -> skip
    fi;
    unlock()
}

/* A stream of this queue or, if it has none, of the other. The first takes a core too. */
inline from_queues()
{
    atomic {
        q = (HAS(me) -> me : 1 - me);
        if
        :: IN(q, 0) -> s = 0; IN(q, 0) = false
        :: IN(q, 1) -> s = 1; IN(q, 1) = false
        :: IN(q, 2) -> s = 2; IN(q, 2) = false
        :: else -> s = NONE
        fi
    }
}

/* weir__worker_have_core: weir__sched_try, or the stream goes to the scheduler. */
inline get_core()
{
    lock();
    if
    :: has_core -> skip
    :: !has_core && nfree && !gang_waits -> has_core = 1; nfree--
    :: else -> in_sched[s] = true; s = NONE
    fi;
    unlock()
}

proctype worker(byte me)
{
    byte s, has_core, q;
    bool found;

end:
    do
    :: finished == 4 -> break
    :: else ->
        if
#if MUTANT == 1
        :: false -> skip
        :: true ->
#else
        :: gang_waits -> empty_queues(); from_scheduler()
        :: else ->
#endif
            from_queues();
            if
            :: s != NONE -> get_core()
            :: else -> from_scheduler()
            fi
        fi;
        if
        :: s == GANG ->
            assert(overtaken <= BOUND);
            gang_ran = true;
            finished++;
            lock();
            nfree = 2;
            unlock()
        :: s < GANG ->
            atomic {
                if
                :: gang_waits -> overtaken++; assert(overtaken <= BOUND)
                :: else -> skip
                fi;
                assert(has_core && !running[s]);
                running[s] = true;
                turns[s]++
            }
            running[s] = false;
            if
            :: turns[s] < TURNS -> make_ready(s)
            :: else -> finished++
            fi
        :: else -> /* nothing to run: its core is free while it rests */
#if MUTANT != 5
            lock();
            nfree = nfree + has_core;
            has_core = 0;
            unlock();
#endif
            /* until something is there that may start */
            (finished == 4 || HAS(0) || HAS(1) || (in_sched[GANG] && nfree == 2) ||
             (nfree && !in_sched[GANG] && (in_sched[0] || in_sched[1] || in_sched[2])))
        fi
    od
}

init
{
    atomic {
        IN(0, 0) = true;
        IN(0, 1) = true;
        IN(1, 2) = true;
        run arrive();
        run worker(0);
        run worker(1)
    }
}
