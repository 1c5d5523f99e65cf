/* A mutex whose unlock has no fence: a model for SPIN of struct weir__light_mutex (src/base/lock.h).
 *
 * Three threads take the lock and give it back. SPIN is sequentially consistent, so the store of an
 * unlock goes into a buffer of its thread, from which it reaches memory at any later time: that is
 * what a processor may do with a plain store. Atomic instructions empty the buffer of their thread;
 * membarrier empties those of all. What must hold:
 *   - one holds the lock at a time;
 *   - everybody comes to an end: nobody sleeps for ever.
 *
 * Each MUTANT must fail:
 *   1  who goes to sleep puts no fence into the others
 *   2  who goes to sleep does not look again after the fence
 *   3  who has slept takes the lock without saying that others may still sleep
 *   4  who unlocks looks for sleepers before it frees the lock
 *   5  who goes to sleep puts the fence before it says that it sleeps
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define THREADS 3
#define ROUNDS 2

bool held;              /* state, in memory */
bool buffered[THREADS]; /* a store of "free" on its way to memory */
bool wanted;
bool asleep[THREADS];
byte holders;

inline drain(t)
{
    if
    :: buffered[t] -> held = false; buffered[t] = false
    :: else -> skip
    fi
}

inline fence_everybody()
{
    atomic { drain(0); drain(1); drain(2) }
}

/* An atomic instruction. */
inline try(t)
{
    atomic {
        drain(t);
        got = !held;
        if
        :: got -> held = true
        :: else -> skip
        fi
    }
}

/* futex: checked and put to sleep in one step. */
inline wait_futex(t)
{
    atomic {
        if
        :: wanted -> asleep[t] = true
        :: else -> skip
        fi
    }
    !asleep[t]
}

inline wake_futex()
{
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: asleep[2] -> asleep[2] = false
        :: else -> skip
        fi
    }
}

inline say_wanted(t) { atomic { drain(t); wanted = true } }

inline take(t)
{
    try(t);
    if
    :: !got ->
        do
        :: true ->
#if MUTANT == 5
            fence_everybody();
            say_wanted(t);
#else
            say_wanted(t);
#if MUTANT != 1
            fence_everybody();
#endif
#endif
#if MUTANT != 2
            try(t);
            if
            :: got -> break
            :: else -> skip
            fi;
#endif
            wait_futex(t);
            try(t);
            if
            :: got ->
#if MUTANT != 3
                wanted = true;
#endif
                break
            :: else -> skip
            fi
        od
    :: else -> skip
    fi
}

inline give_back(t)
{
#if MUTANT == 4
    sees = wanted;
    buffered[t] = true;
#else
    buffered[t] = true;
    sees = wanted;
#endif
    if
    :: sees ->
        atomic { drain(t); wanted = false };
        wake_futex()
    :: else -> skip
    fi
}

proctype user(byte t)
{
    bool got, sees;
    byte round;

    for (round : 1 .. ROUNDS) {
        take(t);
        holders++;
        assert(holders == 1);
        holders--;
        give_back(t)
    }
    /* What is in the buffer reaches memory in the end. */
}

/* The processor empties buffers whenever it likes. */
proctype processor(byte t)
{
end:
    do
    :: atomic { buffered[t] -> drain(t) }
    od
}

init {
    atomic {
        run user(0);
        run user(1);
        run user(2);
        run processor(0);
        run processor(1);
        run processor(2)
    }
}
