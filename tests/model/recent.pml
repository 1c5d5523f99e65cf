/* Recent blocks under the lock of their stream alone: a model for SPIN of src/memory/pool_recent.c,
 * weir__stream_lock and weir__device_lock.
 *
 * Two threads allocate on streams of their own. They use the blocks, and free them or pass them to
 * the other thread, which may queue a read of them on its own stream and then frees them. A third
 * thread takes the device lock: it makes all recent blocks idle, adds up the statistics, and takes
 * an idle block for its own stream. A worker ends reads when it likes. What must hold:
 *   - nobody gets a block that is in use, or that a stream may still read;
 *   - the lists of a stream have one writer at a time;
 *   - under the device lock, the statistics say how many blocks are in use.
 *
 * SPIN is sequentially consistent. Each MUTANT must fail:
 *   1  who frees takes the lock of its own stream, not of the block's owner
 *   2  who takes the device lock adds up statistics before launches under way have ended
 *   3  a block that another stream reads becomes recent as well
 *   4  a launch does not look again once it has the stream's lock
 *   5  who takes the device lock does not add up what streams have changed
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define NBLOCKS 2
#define NONE NBLOCKS
#define OWNER_OF_IDLE 2

mtype = {used, recent, idle, pending};

bool device_lock, per_stream = true;
bool stream_lock[2];
byte writers[2];      /* of the stream's lists */
mtype state[NBLOCKS];
byte owner[NBLOCKS];
bool fenced[NBLOCKS]; /* records a use by a stream that does not own it */
bool reading[NBLOCKS];
bool busy[NBLOCKS];
short more[2];        /* blocks in use that a stream has not reported */
short allocated;      /* what the statistics say */
chan passed[2] = [2] of {byte};

inline lock(l) { atomic { !l; l = true } }

inline add_up()
{
#if MUTANT != 5
    allocated = allocated + more[0];
    more[0] = 0;
    allocated = allocated + more[1];
    more[1] = 0
#else
    skip
#endif
}

/* weir__device_lock. */
inline lock_device()
{
    lock(device_lock);
    if
    :: per_stream ->
        per_stream = false;
#if MUTANT == 2
        add_up();
#endif
        !stream_lock[0];
        !stream_lock[1];
#if MUTANT != 2
        add_up();
#endif
        skip
    :: else -> skip
    fi
}

/* weir__stream_lock. Enough launches have found the device lock held, or not, as SPIN likes. */
inline lock_stream(s)
{
    alone = false;
    do
    :: per_stream ->
        lock(stream_lock[s]);
#if MUTANT == 4
        alone = true;
        break
#else
        if
        :: per_stream -> alone = true; break
        :: else -> stream_lock[s] = false
        fi
#endif
    :: !per_stream ->
        lock(device_lock);
        if
        :: per_stream -> device_lock = false
        :: else ->
            if
            :: per_stream = true; device_lock = false
            :: break
            fi
        fi
    od
}

inline unlock(s)
{
    if
    :: alone -> stream_lock[s] = false
    :: else -> device_lock = false
    fi
}

inline begin_write(s) { writers[s]++; assert(writers[s] == 1) }
inline end_write(s) { writers[s]-- }

/* A recent block of the stream; with the device lock also an idle one. */
inline take(s)
{
    lock_stream(s);
    begin_write(s);
    b = NONE;
    if
    :: state[0] == recent && owner[0] == s -> b = 0
    :: state[1] == recent && owner[1] == s -> b = 1
    :: !alone && state[0] == idle -> b = 0
    :: !alone && state[1] == idle -> b = 1
    :: else -> skip
    fi;
    if
    :: b != NONE ->
        state[b] = used;
        owner[b] = s;
        if
        :: alone -> more[s]++
        :: else -> allocated++
        fi
    :: else -> skip
    fi;
    end_write(s);
    unlock(s)
}

inline use()
{
    assert(!busy[b] && !reading[b]);
    busy[b] = true;
    busy[b] = false
}

/* weir_buffer_free; `me` is the stream of the thread that frees. */
inline free(me)
{
#if MUTANT == 1
    o = me;
#else
    o = owner[b];
#endif
    lock_stream(o);
    if
#if MUTANT == 3
    :: false ->
#else
    :: alone && fenced[b] ->
#endif
        stream_lock[o] = false;
        alone = false;
        lock_device()
    :: else -> skip
    fi;
    begin_write(owner[b]);
    if
#if MUTANT != 3
    :: fenced[b] && reading[b] -> state[b] = pending
#endif
    :: else ->
        fenced[b] = false;
        state[b] = recent
    fi;
    if
    :: alone -> more[o]--
    :: else -> allocated--
    fi;
    end_write(owner[b]);
    unlock(o);
    b = NONE
}

proctype thread(byte me)
{
    byte b = NONE, o, n;
    bool alone;

    for (n : 1 .. 2) {
        if
        :: take(me)
        :: passed[me] ? b ->
            if
            :: owner[b] != me -> /* weir__submit_using: the first use by another stream */
                lock_device();
                fenced[b] = true;
                reading[b] = true;
                device_lock = false
            :: true
            fi;
            free(me)
        fi;
        if
        :: b != NONE ->
            use();
            if
            :: free(me)
            :: nfull(passed[1 - me]) -> passed[1 - me] ! b; b = NONE
            fi
        :: else -> skip
        fi
    }
}

proctype device()
{
    byte b = NONE, o;
    bool alone = false;

    lock_device();
    begin_write(0);
    begin_write(1);
    assert(allocated == (state[0] == used) + (state[1] == used));
    if
    :: state[0] == recent -> state[0] = idle
    :: else -> skip
    fi;
    if
    :: state[1] == recent -> state[1] = idle
    :: else -> skip
    fi;
    end_write(0);
    end_write(1);
    device_lock = false;
    take(1);
    if
    :: b != NONE -> use(); free(1)
    :: else -> skip
    fi
}

/* Reads end; the pool finds that out under the device lock. */
proctype worker()
{
    byte b;

end:
    do
    :: reading[0] -> reading[0] = false
    :: reading[1] -> reading[1] = false
    :: atomic {
            state[0] == pending && !reading[0] && !device_lock && !per_stream ->
            fenced[0] = false;
            state[0] = idle
        }
    :: atomic {
            state[1] == pending && !reading[1] && !device_lock && !per_stream ->
            fenced[1] = false;
            state[1] = idle
        }
    od
}

init
{
    atomic {
        state[0] = recent;
        state[1] = recent;
        owner[0] = 0;
        owner[1] = 0;
        run thread(0);
        run thread(1);
        run device();
        run worker()
    }
}
