/* Host threads that run what they wait for, and workers that leave streams to them: a model for SPIN
 * of src/cpu/help.c and of leaves_to_host and the sleep of src/cpu/rest.c.
 *
 * Two host threads queue a command each on a stream of their own, ROUNDS times, and wait for it. A
 * waiting host borrows the helper, if nobody has it, and takes the stream out of its run queue. It
 * gives a long command back instead. One worker takes streams too; it leaves one look to the hosts
 * after they have helped, and sleeps when it likes. What must hold:
 *   - the helper has one user, and a stream one holder, at a time;
 *   - every command runs once, and no host waits for ever.
 *
 * Each MUTANT must fail:
 *   1  a host borrows the helper without an exchange
 *   2  a host takes the stream out of the queue without the queue's lock
 *   3  who gives the helper back does not look for a worker to wake
 *   4  a worker that leaves a stream to the host does so until the host helps again
 *   5  a worker that leaves a stream to the host goes to sleep without another look
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define NHOSTS 2
#define ROUNDS 2

bool in_queue[NHOSTS]; /* one run queue, as a set */
bool queue_lock;
bool held[NHOSTS];
byte ran[NHOSTS];
bool helper_taken;
byte helper_users, helped;
bool sleeper, awaken; /* the worker sleeps; it has been woken */

#define HAS_WORK (in_queue[0] || in_queue[1])

inline lock() { atomic { !queue_lock; queue_lock = true } }
inline unlock() { queue_lock = false }

inline wake()
{
    if
    :: sleeper && HAS_WORK -> awaken = true
    :: else -> skip
    fi
}

inline put(s)
{
    lock();
    in_queue[s] = true;
    unlock()
}

inline run_on(s)
{
    atomic {
        assert(!held[s]);
        held[s] = true
    }
    atomic {
        held[s] = false;
        ran[s]++
    }
}

proctype host(byte me)
{
    byte round;
    bool got, borrowed, is_long;

    for (round : 1 .. ROUNDS) {
        put(me);
        if
        :: wake() /* by the submission, or later by whoever waits */
        fi;
        /* weir__cpu_help_with */
        borrowed = false;
#if MUTANT == 1
        if
        :: !helper_taken -> borrowed = true; helper_taken = true
        :: else -> skip
        fi;
#else
        atomic {
            if
            :: !helper_taken -> borrowed = true; helper_taken = true
            :: else -> skip
            fi
        }
#endif
        if
        :: borrowed ->
            helper_users++;
            assert(helper_users == 1);
#if MUTANT != 2
            lock();
#endif
            got = in_queue[me];
            in_queue[me] = false;
#if MUTANT != 2
            unlock();
#endif
            if
            :: got ->
                if
                :: is_long = true
                :: is_long = false
                fi;
                if
                :: is_long -> put(me) /* weir__worker_give_turn */
                :: else -> run_on(me); helped++
                fi
            :: else -> skip
            fi;
            helper_users--;
            helper_taken = false;
#if MUTANT != 3
            wake()
#endif
        :: else -> skip
        fi;
        ran[me] == round /* the worker runs it, if the helper has not */
    }
}

proctype worker()
{
    byte s, seen;

look:
    if
    :: HAS_WORK ->
        if
        :: helped != seen ->
#if MUTANT == 4
            helped != seen + 1
#elif MUTANT == 5
            sleeper = true;
            goto asleep
#endif
            seen = helped;
            goto rest /* one pause */
        :: else -> skip
        fi;
        lock();
        if
        :: in_queue[0] -> s = 0; in_queue[0] = false
        :: in_queue[1] -> s = 1; in_queue[1] = false
        :: else -> s = NHOSTS
        fi;
        unlock();
        if
        :: s < NHOSTS -> run_on(s)
        :: else -> skip
        fi;
        goto look
    :: else -> skip
    fi;
rest:
    if
    :: goto look
    :: skip
    fi;
    sleeper = true;
    if
    :: HAS_WORK -> sleeper = false; awaken = false; goto look
    :: else -> skip
    fi;
asleep:
end:
    awaken;
    sleeper = false;
    awaken = false;
    goto look
}

init
{
    atomic {
        run host(0);
        run host(1);
        run worker()
    }
}
