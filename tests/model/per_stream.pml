/* Launches that take the lock of their stream alone: a model for SPIN of src/device/lock.c.
 *
 * Two threads launch on streams of their own. A third launches on the first one's stream and then
 * takes the device lock, with which it writes to both streams, as a plan's run does. What must
 * hold:
 *   - a stream's queue has one writer at a time;
 *   - everybody comes to an end.
 *
 * SPIN is sequentially consistent. A fence that is taken out is written as what it would allow.
 * Each MUTANT must fail:
 *   1  a launch does not look again once it has the stream's lock
 *   2  who takes the device lock does not wait for launches under way
 *   3  who takes the device lock looks at the streams before it clears the flag
 *   4  who sets the flag goes on with the device lock in place of the stream's
 *   5  who comes late to the device lock, for a launch, goes on with it though the flag is set
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define NSTREAMS 2
#define LAUNCHES 2

bool device_lock;
bool per_stream;
bool stream_lock[NSTREAMS];
byte writers[NSTREAMS];

inline lock(l) { atomic { !l; l = true } }

inline write_to(s)
{
    writers[s]++;
    assert(writers[s] == 1);
    writers[s]--
}

/* weir__stream_lock: the lock of the device is found held, or not, as SPIN likes; enough launches
 * have found it so, or not. */
inline launch(s)
{
    alone = false;
    do
    :: true ->
        if
        :: per_stream ->
            lock(stream_lock[s]);
#if MUTANT == 1
            alone = true;
            break
#else
            if
            :: per_stream -> alone = true; break
            :: else -> stream_lock[s] = false
            fi
#endif
        :: else -> skip
        fi;
        lock(device_lock);
        if
#if MUTANT == 4
        :: !per_stream -> per_stream = true; break
#else
        :: !per_stream -> per_stream = true
#endif
        :: skip
        fi;
        if
#if MUTANT == 5
        :: true -> break
#else
        :: !per_stream -> break
        :: else -> device_lock = false
#endif
        fi
    od;
    write_to(s);
    if
    :: alone -> stream_lock[s] = false
    :: else -> device_lock = false
    fi
}

/* weir__device_lock. */
inline lock_device()
{
    lock(device_lock);
    if
    :: per_stream ->
#if MUTANT != 3
        per_stream = false;
#endif
#if MUTANT != 2
        !stream_lock[0];
        !stream_lock[1];
#endif
#if MUTANT == 3
        per_stream = false;
#endif
        skip
    :: else -> skip
    fi
}

proctype launcher(byte s)
{
    byte n;
    bool alone;

    for (n : 1 .. LAUNCHES) {
        launch(s)
    }
}

proctype both()
{
    bool alone;

    launch(0);
    lock_device();
    write_to(0);
    write_to(1);
    device_lock = false
}

init
{
    atomic {
        run launcher(0);
        run launcher(1);
        run both()
    }
}
