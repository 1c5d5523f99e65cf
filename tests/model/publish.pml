/* Publishing and waiting: a model for SPIN of weir__soft_publish, park and weir__soft_host_unpark
 * in src/soft/queue.c.
 *
 * A stream runs two commands and publishes after each. Two waiters park for command 2 and for
 * command 1; the second may give up at any time. Nobody who waits for a command that is published is
 * left parked, and nobody is woken twice.
 *
 * Each MUTANT must fail (how a fence is taken out: token.pml):
 *   1  the publisher reads `waiters` before its store of `completed`, and not after
 *   2  who parks reads `completed` before it has the lock
 *   3  who gives up does not look whether it was woken meanwhile
 */
#ifndef MUTANT
#define MUTANT 0
#endif

bool locked;
byte count;      /* with `locked` one word */
byte completed;
bool linked[2], woken[2];
byte over;

#define SEQ(w) (2 - (w))

inline lock_word() { atomic { !locked; locked = true } }
inline unlock_word() { locked = false }

inline wake(w)
{
    if
    :: linked[w] && over >= SEQ(w) ->
        linked[w] = false;
        count--;
        assert(!woken[w]);
        woken[w] = true
    :: else -> skip
    fi
}

proctype publisher()
{
    do
    :: over == 2 -> break
    :: else ->
        over++;
#if MUTANT == 1
        if
        :: !locked && count == 0 -> completed = over; goto published
        :: else -> skip
        fi;
#else
        if
        :: atomic { !locked && count == 0 -> skip };
            completed = over;
            if
            :: !locked && count == 0 -> goto published
            :: else -> skip
            fi
        :: else -> skip
        fi;
#endif
        lock_word();
        completed = over;
        wake(0);
        wake(1);
        unlock_word();
published:
        skip
    od
}

proctype waiter(byte w)
{
    bool parked = false;
#if MUTANT == 2
    if
    :: completed < SEQ(w) -> parked = true
    :: else -> skip
    fi;
    lock_word();
#else
    lock_word();
    if
    :: completed < SEQ(w) -> parked = true
    :: else -> skip
    fi;
#endif
    if
    :: parked -> linked[w] = true; count++
    :: else -> skip
    fi;
    unlock_word();
    if
    :: !parked -> goto over_now
    :: else -> skip
    fi;
    if
    :: woken[w] -> skip
    :: w == 1 -> /* gives up */
        lock_word();
#if MUTANT == 3
        linked[w] = false;
        count--;
#else
        if
        :: !woken[w] -> linked[w] = false; count--
        :: else -> skip
        fi;
#endif
        unlock_word()
    fi;
over_now:
    assert(count <= 2)
}

init { atomic { run publisher(); run waiter(0); run waiter(1) } }
