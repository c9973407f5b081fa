/*
 * Two clients lock one resource on three masters, of which one restarts once and has forgotten everything. Do both ever hold
 * it? With QUARANTINE defined the restarted master has no vote for as long as a lock can live; without, it has one at once.
 *
 * Source: "Performance, crash-recovery and fsync" (Distributed Locks with Redis).
 *
 * Time is left out. A lock may run out whenever it is held, its keys and the belief in it at once: clocks are the matter of
 * other tests. And the quarantine, which is longer than the longest TTL, is the wait for the end of every attempt that was
 * under way when the master restarted.
 *
 *     spin -a [-DQUARANTINE] restart.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan
 */

#define MASTERS 3
#define QUORUM  2
#define CLIENTS 2
#define NOBODY  CLIENTS

byte key[MASTERS] = NOBODY;    /* the client whose token the master holds */
bool mute[MASTERS];            /* quarantined: it gets every command and has no vote */
bool trying[CLIENTS];          /* an attempt, or the lock that came of it, is under way */
bool awaited[CLIENTS];         /* … and was when the master restarted */
bool holds[CLIENTS];

inline end_attempt(c) {
    trying[c] = false;
    awaited[c] = false
}

proctype client(byte me) {
    byte m, votes, asked;
    bool reached[MASTERS];

end:
    do
    :: true ->
        atomic { trying[me] = true; votes = 0; asked = 0 }

        /* The round: the masters get the SET at different times, in any order, and one may never get it. */
        do
        :: asked < MASTERS ->
            if
            :: !reached[0] -> m = 0
            :: !reached[1] -> m = 1
            :: !reached[2] -> m = 2
            fi;
            atomic {
                reached[m] = true;
                asked++;
                if
                :: key[m] == NOBODY -> key[m] = me; votes = votes + (mute[m] -> 0 : 1)
                :: else
                fi
            }
        :: asked >= QUORUM -> break
        od;
        atomic { reached[0] = false; reached[1] = false; reached[2] = false };

        if
        :: votes >= QUORUM ->
            atomic { holds[me] = true; assert(!holds[1 - me]) };
            holds[me] = false
        :: else
        fi;

        /* The lock runs out, everywhere at once, or it is released, or the attempt undone, on one master after the other. */
        if
        :: atomic {
               m = 0;
               do
               :: m < MASTERS ->
                   if :: key[m] == me -> key[m] = NOBODY :: else fi;
                   m++
               :: else -> break
               od;
               end_attempt(me)
           }
        :: m = 0;
           do
           :: m < MASTERS ->
               atomic {
                   if :: key[m] == me -> key[m] = NOBODY :: else fi;
                   m++
               }
           :: else -> break
           od;
           atomic { end_attempt(me) }
        fi
    od
}

/* The restart, and the end of the quarantine. */
proctype restart() {
    byte m;

    select(m : 0 .. 2);
    atomic {
        key[m] = NOBODY;
#ifdef QUARANTINE
        mute[m] = true;
        awaited[0] = trying[0];
        awaited[1] = trying[1]
#endif
    };
    (!awaited[0] && !awaited[1]) -> mute[m] = false
}

init {
    atomic { run client(0); run client(1); run restart() }
}
