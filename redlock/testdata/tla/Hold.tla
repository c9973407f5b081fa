----------------------------------- MODULE Hold ----------------------------------
(***************************************************************************)
(* Held locks: a proxy renews a lock while its client's connection stands, *)
(* and the client asks the proxy, by KEEPALIVE, until when it holds it.    *)
(* When may the client believe the answer, and what must the end of a      *)
(* connection leave alone?                                                 *)
(*                                                                         *)
(* One resource. What a quorum of masters holds is one key here. A grant,  *)
(* a renewal and a takeover happen at one moment; a release and a          *)
(* KEEPALIVE take any time. A release may be lost, or come minutes later.  *)
(* Time is in ticks of true time. A proxy's clock may stand still for a    *)
(* tick; the masters see that with the next reading of their clocks.       *)
(*                                                                         *)
(* The rules: a client counts the validity from when it sent KEEPALIVE. A  *)
(* proxy answers from memory, but behind a barrier: a reading of the       *)
(* masters' clocks that was asked for when the KEEPALIVE had come, and     *)
(* that is in step. A takeover puts a new token in the place of the old    *)
(* one. UNLOCK, and the end of a connection, end the renewals. Only a      *)
(* connection that its client has closed releases.                         *)
(*                                                                         *)
(* A grant, a renewal and a takeover do not ask here whether clocks are in *)
(* step: each counts from now on, as the key does. The code asks, because  *)
(* a quorum of masters is more than one key: a master whose clock has gone *)
(* forward may hold the token of an attempt that failed where it has ended *)
(* the key of somebody else (ClockCopy.tla, MFoundCounts).                 *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Clients, Proxies, Nobody,
  TTL,        \* of every lock, in ticks
  Tokens,     \* how many tokens are made, in all
  MaxPause,   \* for how many ticks clocks of proxies stand still, in all
  MNoBarrier,   \* KEEPALIVE is answered from memory alone
  MForgives,    \* a barrier counts as soon as the gain is not new any more
  MFromAnswer,  \* the client counts from when the answer came
  MNoRotation,  \* a takeover keeps the token
  MRenewsOn,    \* a renewal follows the UNLOCK
  MCutReleases  \* a connection that broke releases, too

Max(x, y) == IF x > y THEN x ELSE y
Less(x) == Max(0, x - 1)

VARIABLES
  key,   \* what a quorum holds: a token (0: none), and the ticks that are left of it
  bound, \* what each proxy renews: a token, and the ticks that are left of it by the proxy's clock
  cl,    \* each client: its token, the proxy that it is connected to, the ticks for which it believes that it holds the lock
  ka,    \* each client's KEEPALIVE: "none", "sent" or "answered", how long ago it was sent, the answer
  still, \* for how long a proxy's clock stood still since the masters' clocks were read
  watch, \* for how long, by its clock, a proxy still counts no vote of masters that have gained on it
  sent,  \* releases on their way, by token
  over,  \* how long ago the token of the key was unlocked, -1: it was not
  next,  \* the next token
  used   \* how much of MaxPause
vars == <<key, bound, cl, ka, still, watch, sent, over, next, used>>

NoKey == [tok |-> 0, left |-> 0]
Quiet == [st |-> "none", age |-> 0, v |-> 0]
Idle == [tok |-> 0, at |-> Nobody, left |-> 0]

Init ==
  /\ key = NoKey
  /\ bound = [p \in Proxies |-> NoKey]
  /\ cl = [c \in Clients |-> Idle]
  /\ ka = [c \in Clients |-> Quiet]
  /\ still = [p \in Proxies |-> 0]
  /\ watch = [p \in Proxies |-> 0]
  /\ sent = {}
  /\ over = -1
  /\ next = 1
  /\ used = 0

(* A proxy that has read the masters' clocks. If its own stood still meanwhile, they have gained on it, and no vote counts for one TTL of its clock. *)
InStep(p) == still[p] = 0 /\ watch[p] = 0
Reads(p) ==
  /\ still' = [still EXCEPT ![p] = 0]
  /\ watch' = [watch EXCEPT ![p] = IF still[p] > 0 /\ ~MForgives THEN TTL ELSE @]
Unread == UNCHANGED <<still, watch>>
---------------------------------------------------------------------------------
\* code: Client.grantedLocked, holds.bind; trace: Trace
Lock(c, p) ==
  /\ cl[c] = Idle /\ key = NoKey /\ next <= Tokens
  /\ key' = [tok |-> next, left |-> TTL]
  /\ bound' = [bound EXCEPT ![p] = [tok |-> next, left |-> TTL]]
  /\ cl' = [cl EXCEPT ![c] = [tok |-> next, at |-> p, left |-> TTL]]
  /\ next' = next + 1
  /\ over' = -1
  /\ UNCHANGED <<ka, sent, used>> /\ Unread

(* The proxy renews what is bound, or finds it lost. All that are due go to the masters in one batch, each by itself. *)
\* code: Client.renewHeld, binding.renewedLocked, binding.deniedLocked, lua/extend.lua; trace: Trace
Renew(p) ==
  /\ bound[p].tok # 0
  /\ Reads(p)
  /\ IF key.tok = bound[p].tok
     THEN /\ key' = [key EXCEPT !.left = TTL]
          /\ bound' = [bound EXCEPT ![p].left = TTL]
     ELSE key' = key /\ bound' = [bound EXCEPT ![p] = NoKey]
  /\ UNCHANGED <<cl, ka, sent, over, next, used>>

(* HOLD on another proxy, by a client that knows the token. It does not hear the old connection any more, which ends when it ends. *)
\* code: Client.StartHold, Client.takeover, Client.committedLocked, holds.moved, lua/commit.lua; trace: Trace
Takeover(c, p) ==
  LET new == IF MNoRotation THEN cl[c].tok ELSE next IN
  /\ cl[c].tok # 0 /\ cl[c].at # p /\ key.tok = cl[c].tok /\ new <= Tokens
  /\ key' = [tok |-> new, left |-> TTL]
  /\ bound' = [bound EXCEPT ![p] = [tok |-> new, left |-> TTL]]
  /\ cl' = [cl EXCEPT ![c] = [tok |-> new, at |-> p, left |-> TTL]]
  /\ ka' = [ka EXCEPT ![c] = Quiet]
  /\ next' = Max(next, new + 1)
  /\ UNCHANGED <<sent, over, used>> /\ Unread

(* The end of a connection whose client is on it no more: the proxy releases what is bound there. *)
\* code: Client.EndHolder, holds.unbind, Client.releaseLocked; trace: Trace
OldEnds(p) ==
  /\ bound[p].tok # 0 /\ \A c \in Clients : cl[c].at # p
  /\ sent' = sent \cup {bound[p].tok}
  /\ bound' = [bound EXCEPT ![p] = NoKey]
  /\ UNCHANGED <<key, cl, ka, over, next, used>> /\ Unread

(* The network ends a connection, and its client does not know: the lock lapses. *)
\* code: Client.EndHolder; trace: Trace
Cut(c) ==
  LET p == cl[c].at IN
  /\ p # Nobody /\ bound[p].tok = cl[c].tok
  /\ sent' = IF MCutReleases THEN sent \cup {bound[p].tok} ELSE sent
  /\ bound' = [bound EXCEPT ![p] = NoKey]
  /\ ka' = [ka EXCEPT ![c] = Quiet]
  /\ UNCHANGED <<key, cl, over, next, used>> /\ Unread

\* code: Client.StartUnlock, holds.released; trace: Trace
Unlock(c) ==
  LET p == cl[c].at IN
  /\ cl[c].tok # 0
  /\ sent' = sent \cup {cl[c].tok}
  /\ over' = IF key.tok = cl[c].tok THEN 0 ELSE over
  /\ bound' = IF bound[p].tok = cl[c].tok /\ ~MRenewsOn THEN [bound EXCEPT ![p] = NoKey] ELSE bound
  /\ cl' = [cl EXCEPT ![c] = Idle]
  /\ ka' = [ka EXCEPT ![c] = Quiet]
  /\ UNCHANGED <<key, next, used>> /\ Unread

\* code: writeRelease, readRelease, flushReleases, lua/release.lua; trace: Trace
Released(t) ==
  /\ t \in sent
  /\ sent' = sent \ {t}
  /\ key' = IF key.tok = t THEN NoKey ELSE key
  /\ over' = IF key.tok = t THEN -1 ELSE over
  /\ UNCHANGED <<bound, cl, ka, next, used>> /\ Unread
---------------------------------------------------------------------------------
(* KEEPALIVE. *)

\* code: Client.StartKeepAlive, Client.beginKeepAliveLocked
Ask(c) ==
  /\ cl[c].tok # 0 /\ ka[c].st = "none"
  /\ ka' = [ka EXCEPT ![c] = [st |-> "sent", age |-> 0, v |-> 0]]
  /\ UNCHANGED <<key, bound, cl, sent, over, next, used>> /\ Unread

(* The barrier, and the answer behind it. Without the barrier's quorum there is none. *)
\* code: Client.keepAliveDecided, holds.lapse, holds.left; trace: Trace
Answer(c) ==
  LET p == cl[c].at
      held == IF bound[p].tok = cl[c].tok THEN bound[p].left ELSE 0 IN
  /\ ka[c].st = "sent"
  /\ ka' = [ka EXCEPT ![c] = IF InStep(p) \/ MNoBarrier THEN [@ EXCEPT !.st = "answered", !.v = held] ELSE Quiet]
  /\ IF MNoBarrier THEN Unread ELSE Reads(p)
  /\ UNCHANGED <<key, bound, cl, sent, over, next, used>>

\* code: none: the client counts the validity from when it sent KEEPALIVE
Hear(c) ==
  LET v == ka[c].v - (IF MFromAnswer THEN 0 ELSE ka[c].age) IN
  /\ ka[c].st = "answered"
  /\ cl' = [cl EXCEPT ![c].left = IF ka[c].v = 0 THEN 0 ELSE Max(@, v)]
  /\ ka' = [ka EXCEPT ![c] = Quiet]
  /\ UNCHANGED <<key, bound, sent, over, next, used>> /\ Unread

(* A client that believes in nothing any more gives its token up. *)
\* code: none: the client gives its token up
Forget(c) ==
  /\ cl[c].tok # 0 /\ cl[c].left = 0
  /\ cl' = [cl EXCEPT ![c] = Idle]
  /\ ka' = [ka EXCEPT ![c] = Quiet]
  /\ UNCHANGED <<key, bound, sent, over, next, used>> /\ Unread
---------------------------------------------------------------------------------
(* True time goes on. The clocks of the proxies P stand still. *)
\* code: none: time passes, and the clocks of paused machines stand still
Tick(P) ==
  /\ used + Cardinality(P) <= MaxPause
  /\ used' = used + Cardinality(P)
  /\ key' = IF key.left <= 1 THEN NoKey ELSE [key EXCEPT !.left = @ - 1]
  /\ bound' = [p \in Proxies |-> IF p \in P THEN bound[p]
                                 ELSE IF bound[p].left <= 1 THEN NoKey ELSE [bound[p] EXCEPT !.left = @ - 1]]
  /\ cl' = [c \in Clients |-> [cl[c] EXCEPT !.left = Less(@)]]
  /\ ka' = [c \in Clients |-> IF ka[c].st = "none" THEN Quiet ELSE [ka[c] EXCEPT !.age = IF @ < TTL THEN @ + 1 ELSE @]]
  /\ still' = [p \in Proxies |-> IF p \in P THEN Max(1, still[p]) ELSE still[p]]
  /\ watch' = [p \in Proxies |-> IF p \in P THEN watch[p] ELSE Less(watch[p])]
  /\ over' = IF key.left <= 1 \/ over < 0 THEN -1 ELSE IF over < TTL THEN over + 1 ELSE over
  /\ UNCHANGED <<sent, next>>

Next ==
  \/ \E P \in SUBSET Proxies : Tick(P)
  \/ \E p \in Proxies : Renew(p) \/ OldEnds(p) \/ \E c \in Clients : Lock(c, p) \/ Takeover(c, p)
  \/ \E c \in Clients : Cut(c) \/ Unlock(c) \/ Ask(c) \/ Answer(c) \/ Hear(c) \/ Forget(c)
  \/ \E t \in sent : Released(t)
Spec == Init /\ [][Next]_vars

(* At most one client believes that it holds the lock. *)
MutualExclusion == Cardinality({c \in Clients : cl[c].left > 0}) <= 1
(* Whatever becomes of the release, a key that was unlocked ends with its TTL. *)
Ends == over < TTL
Perms == Permutations(Clients) \cup Permutations(Proxies)
==================================================================================
