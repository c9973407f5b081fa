/*
 * A caller repeats its LOCK with its own token T through another redlockd, while the first one takes back its failed attempt.
 *
 * Three masters, a quorum of two, one clock in ticks. Attempt A asks for T at the first redlockd and is refused or timed out at any
 * moment. Attempt B asks for T at the second redlockd at any moment, with a TTL that may be shorter. Z asks for another token X. Every
 * command reaches every master in any order, or late, or never. No TTL is as short as SLACK (driftOf leaves nothing of such a TTL).
 *
 * The undo of A deletes a key only if the master has told that A set it, the key holds T, and the key ends when A can have made it
 * end: the first redlockd knows that moment up to SLACK ticks. B, which finds T there and counts on it as a repeated LOCK and an EXTEND
 * do, moves the end of the key by at least MOVE ticks, and never shortens its life. Safe: MOVE > SLACK. Mutants: BLIND deletes whatever
 * the end is; MOVE=0 and MOVE=1 do not move it, or not far enough.
 */
#define N 3
#define Q 2
#define FREE 0
#define T 1
#define X 2
#define ENDTIME 3
#define SLACK 1
#ifndef MOVE
#define MOVE 2
#endif

byte now;
byte val[N], end[N];      /* what the masters hold, and until when */
byte did[N];              /* bits: B, Z have been executed here */
bool told[N];             /* the first redlockd knows that A has set the key here, and has not taken it back */
byte latest[N];           /* when the key that A has set ends at the latest, as the first redlockd knows it */
bool zSent;
byte bStart, bTTL, bVotes, zStart, zVotes;
byte validT, validX;      /* ends of the validity that the callers believe in */

#define A_TTL 2
#define Z_TTL 2
#define DID(m, bit) (did[m] & bit)
#ifdef BLIND
#define CAN_BE_OF_A(m) true
#else
#define CAN_BE_OF_A(m) (end[m] <= latest[m] && end[m] + SLACK >= latest[m])
#endif

inline touch(m, ttl) {
  if
  :: now + ttl >= end[m] + MOVE -> end[m] = now + ttl
  :: else -> end[m] = end[m] + MOVE
  fi
}

inline tick() {
  now++;
  m = 0;
  do
  :: m < N -> if :: val[m] != FREE && now >= end[m] -> val[m] = FREE; end[m] = 0 :: else fi; m++
  :: else -> break
  od;
  m = 0
}

inline pick() { if :: m = 0 :: m = 1 :: m = 2 fi }

active proctype world() {
  byte m, aSent;
  do
  :: now < ENDTIME -> d_step { tick() }
  :: now >= ENDTIME -> break
  /* A reaches the next master (their numbers mean nothing else); the first redlockd learns of it or not */
  :: atomic { aSent < N ->
      if
      :: val[aSent] == FREE -> val[aSent] = T; end[aSent] = now + A_TTL;
         if
         :: told[aSent] = true; latest[aSent] = end[aSent] + SLACK
         :: skip
         fi
      :: else
      fi; aSent++ }
  /* the undo of A, at any time */
  :: atomic { pick();
      if
      :: told[m] ->
         if :: val[m] == T && CAN_BE_OF_A(m) -> val[m] = FREE; end[m] = 0 :: else fi;
         told[m] = false; latest[m] = 0
      :: else
      fi; m = 0 }
  /* B */
  :: atomic { pick();
      if
      :: !DID(m, 1) -> did[m] = did[m] | 1;
         if :: bTTL == 0 -> bStart = now; if :: bTTL = 2 :: bTTL = 3 fi :: else fi;
         if
         :: val[m] == FREE -> val[m] = T; end[m] = now + bTTL; bVotes++
         :: val[m] == T -> touch(m, bTTL); bVotes++
         :: else
         fi;
         if :: bVotes == Q && now < bStart + bTTL -> assert(now >= validX); validT = bStart + bTTL :: else fi
      :: else
      fi; m = 0 }
  /* Z */
  :: atomic { pick();
      if
      :: !DID(m, 2) -> did[m] = did[m] | 2;
         if :: !zSent -> zSent = true; zStart = now :: else fi;
         if :: val[m] == FREE -> val[m] = X; end[m] = now + Z_TTL; zVotes++ :: else fi;
         if :: zVotes == Q && now < zStart + Z_TTL -> assert(now >= validT); validX = zStart + Z_TTL :: else fi
      :: else
      fi; m = 0 }
  od
}
