---------------------------------- MODULE Clock ----------------------------------
(***************************************************************************)
(* Masters end keys by their wall clocks, clients (proxies) end leases by  *)
(* their own monotonic clocks. When may a proxy count a master's vote, so  *)
(* that a key that has ended on the master belongs to a lease that is over?*)
(*                                                                         *)
(* Pad. The key of a lease of T ticks lives for T + Tol + T div Share: Tol *)
(* is clock_step_max, Share stands for 1 / drift_factor.                   *)
(*                                                                         *)
(* In proportion. A proxy keeps readings of the master's clock. A reading  *)
(* allows the clock to gain Tol + A div Share, where A is the age of the   *)
(* reading that followed it. (Its own age would be wrong: a key that was   *)
(* set just before the following reading is younger than that.) A gain     *)
(* beyond what a reading allows costs votes until that reading would allow *)
(* it, also if the clock goes back meanwhile: what has ended stays away.   *)
(* The ring of readings is not replaced, so gains add up.                  *)
(*                                                                         *)
(* Trust. Readings say nothing of the time before the first one. So the    *)
(* first one has to be TTL old, or                                         *)
(* - told: each heartbeat counts a beat on the master, and reads the clock *)
(*   before and after that. If the reading after beat b is in step, its    *)
(*   proxy tells that, and g, how much of Tol the clock has used up. It is *)
(*   for proxies whose readings began before their first beat, if b is     *)
(*   later than that beat. Such a proxy goes on with one reading that      *)
(*   allows Tol - g, less what the clock has gained since its first        *)
(*   reading, and that begins to allow more from now on;                   *)
(* - nobody speaks: on a quorum of masters nobody tells anything. Then the *)
(*   wall clocks of the proxy and the master have to agree, and no gain    *)
(*   that the proxy has seen may cost votes any more.                      *)
(* After a gain the proxy begins fresh readings, to be told of them.       *)
(* A proxy counts votes when it has spoken, and looks who speaks when its  *)
(* readings have begun: so of two that start one hears the other, or has   *)
(* readings from before the other's first vote.                            *)
(*                                                                         *)
(* Here is one master: any one in which two quorums meet. If Elsewhere,    *)
(* there are others, in step, on which a proxy speaks from the first       *)
(* heartbeat on that it sends when this one is in step, too. Else this one *)
(* is alone, and nothing depends on who speaks: statements may be refused, *)
(* forgotten, and removed.                                                 *)
(*                                                                         *)
(* The model allows more than the code does: a statement is known at once  *)
(* and for ever, which covers one that is late; a heartbeat is given up at *)
(* any time, as by a master that is full, or cut off; a proxy reads, or    *)
(* does not, whenever it likes. A beat is the set of proxies whose first   *)
(* beat was earlier: nothing else is asked of it.                          *)
(*                                                                         *)
(* Time is in ticks of true time. A proxy's monotonic clock may stand      *)
(* still for a tick while its machine is paused; it finds that out when it *)
(* wakes up, before it does anything, and takes the pause off its leases.  *)
(* The rates of clocks are left out: part of drift_factor is kept for them.*)
(* So are keys that no counted vote goes with, and releases. Of leases     *)
(* matters only how long the last one lasts.                               *)
(*                                                                         *)
(* What the rules take for granted is a constant, too, and TLC must find   *)
(* two holders without it: Skew or Behind with Gap, Common, Blind, Silence,*)
(* PauseUnseen. Each CONSTANT named M... breaks one rule, likewise.        *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Proxies,
  TTL,      \* the longest lease, in ticks; it is max_ttl, and the wait
  Tol,      \* the tolerance, in ticks
  Share,    \* a reading allows one tick more after so many
  MaxGain,  \* by how much the master's clock goes forward, in all
  MaxBack,  \* by how much it goes back, in all
  MaxPause, \* for how many ticks proxies are paused, in all
  Newcomers,\* the proxies that have read nothing at the start
  Restarts, \* TRUE: proxies are replaced by new ones, which have read nothing
  Elsewhere,\* TRUE: there are other masters, on which proxies speak
  Gap,      \* TRUE: a proxy may be replaced while no other one speaks
  Silence,  \* TRUE: a proxy may stop speaking, and go on
  Skew,     \* up to this difference two wall clocks agree
  Behind,   \* by how much the master's wall clock begins behind
  Common,   \* TRUE: the wall clocks of proxies step as the master's does
  Blind,    \* TRUE: a clock may go both ways between two readings of a proxy
  PauseUnseen, \* TRUE: a paused proxy does not take the pause off its leases
  MNoPad,      \* keys live without the tolerance
  MFast,       \* readings allow twice as much
  MOwnAge,     \* a reading allows by its own age
  MNewest,     \* gains are measured against the newest reading only
  MReplaced,   \* a gain replaces the ring, so that gains do not add up
  MForgiven,   \* a gain costs nothing once the clock has gone back
  MForgets,    \* a new connection forgets the readings, and with them the gain
  MShort,      \* the first reading has to be one tick less than TTL old
  MEarly,      \* a vote is judged by a reading from before its command
  MNewCounts,  \* a new proxy counts votes because nobody says that it must not
  MAnyway,     \* a new proxy goes by wall clocks though others speak
  MStaleLook,  \* a new proxy goes by wall clocks because nobody spoke before its readings began
  MUnsaid,     \* a proxy counts votes before it speaks
  MAfterGain,  \* a proxy goes by wall clocks though a gain costs votes
  MUntold,     \* a proxy tells what it was not told itself
  MFront,      \* a proxy tells of its reading before the beat
  MFirst,      \* the first beat was counted before the readings began
  MNoFresh,    \* after a gain no fresh readings begin
  MDropped,    \* the gain is not told
  MOverlap     \* who is told lets the first reading allow by its own age

Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y
Maximum(S) == CHOOSE x \in S : \A y \in S : y <= x
Life(T) == T + T \div Share + IF MNoPad THEN 0 ELSE Tol
None == -100

VARIABLES
  key,   \* the ticks that the master's clock leaves the key
  lease, \* the ticks that are left of the last lease
  two,   \* TRUE: a lease began while another one went on
  px,    \* what each proxy knows
  went,  \* which way the clock has gone since a proxy read it: 1 forward, -1 back, 0 neither
  used   \* how much of MaxGain, MaxBack, MaxPause
vars == <<key, lease, two, px, went, used>>

(* last: the last reading: by how much the clock has gained since, and its age, which is 0 until another one follows.
   ring: the readings before. age: that of the first one; TTL: TTL or more, or vouched for.
   debt: for how long past gains cost votes.
   fresh: whether there are fresh readings, by how much the clock has gained since the lowest, and whether the first
   beat is counted. offer: the least g that was told.
   hb: the heartbeat: which proxies had their first beat before it, and whether nobody spoke. *)
NoFresh == [on |-> FALSE, gain |-> 0, age |-> 0, first |-> FALSE]
NoBeat == [st |-> "idle", beat |-> {}, alone |-> FALSE, g |-> None]
Now == [gain |-> 0, age |-> 0]
New == [begun |-> FALSE, last |-> Now, ring |-> {}, age |-> 0, debt |-> 0, fresh |-> NoFresh, offer |-> None, hb |-> NoBeat, speaks |-> FALSE]
InStep == [New EXCEPT !.begun = TRUE, !.age = TTL, !.speaks = Elsewhere]

Init ==
  /\ key = 0 /\ lease = 0 /\ two = FALSE
  /\ px = [p \in Proxies |-> IF p \in Newcomers THEN New ELSE InStep]
  /\ went = [p \in Proxies |-> 0]
  /\ used = [gain |-> 0, back |-> 0, pause |-> 0]
---------------------------------------------------------------------------------
(* What a proxy makes of a reading. *)

Per == IF MFast THEN Share \div 2 ELSE Share
(* For how long a reading costs votes. *)
Costs(r) == Max(0, Min(TTL, Per * (r.gain - Tol) - r.age))
(* A reading that allows more than another one is not needed. *)
Needed(R) == {r \in R : r.gain > 0 /\ ~\E o \in R : o # r /\ o.gain >= r.gain /\ o.age <= r.age}
Watched(x) == x.begun /\ x.age >= (IF MShort THEN TTL - 1 ELSE TTL)
Good(x) == x.begun /\ x.debt = 0 /\ (Watched(x) \/ MNewCounts)
(* How much of the tolerance is used up. *)
Uses(x) == Maximum({0} \cup {r.gain - r.age \div Share : r \in x.ring})

Judged(x) ==
  IF ~x.begun THEN [x EXCEPT !.begun = TRUE, !.last = Now, !.fresh = [NoFresh EXCEPT !.on = TRUE]]
  ELSE
  LET R == Needed((IF MNewest THEN {} ELSE x.ring) \cup {x.last})
      costs == Maximum({0} \cup {Costs(r) : r \in R})
      debt == IF MForgiven THEN costs ELSE Max(x.debt, costs)
      anew == IF x.fresh.on THEN x.fresh.gain > Tol ELSE costs > 0
      fresh == IF anew THEN [NoFresh EXCEPT !.on = TRUE, !.first = MNoFresh \/ (MFirst /\ x.hb.st = "counted")]
               ELSE IF debt = 0 /\ Watched(x) THEN NoFresh
               ELSE [x.fresh EXCEPT !.gain = Max(0, @)]
  IN [x EXCEPT !.last = Now, !.ring = IF MReplaced /\ costs > 0 THEN {} ELSE R, !.debt = debt, !.fresh = fresh,
               !.offer = IF MNoFresh /\ anew THEN 0 ELSE IF MFirst \/ (fresh.on /\ ~anew) THEN @ ELSE None]
Knows(p, x) ==
  /\ px' = [px EXCEPT ![p] = x]
  /\ went' = [went EXCEPT ![p] = 0]

Apart == IF Common THEN 0 ELSE used.gain - used.back - Behind
Agree == Apart \in -Skew..Skew

(* A batch. *)
\* code: guard.judge, clockGuard.judge, clock.Ring.Gain, clock.Ring.Add, lane.doubtClock, clockGuard.doubt
Read(p) ==
  /\ px[p].begun
  /\ Knows(p, Judged(px[p]))
  /\ UNCHANGED <<key, lease, two, used>>

(* The proxy goes on with one reading, which allows g less. *)
Joins(x, g) == [x EXCEPT !.ring = Needed({[gain |-> g, age |-> IF MOverlap THEN x.fresh.age ELSE 0]}),
                         !.age = TTL, !.debt = 0, !.fresh = NoFresh, !.offer = None]

\* code: clockGuard.trust, clock.Ring.Inherit
Told(p) ==
  LET x == Judged(px[p])
      g == x.offer + x.fresh.gain
  IN
  /\ px[p].begun /\ x.fresh.first /\ x.offer # None /\ g <= Tol
  /\ Knows(p, Joins(x, g))
  /\ UNCHANGED <<key, lease, two, used>>
---------------------------------------------------------------------------------
(* Heartbeats. *)

(* The reading before. *)
\* code: lane.heartbeat, clockGuard.begin
Front(p) ==
  LET x == IF px[p].begun /\ ~MFront THEN px[p] ELSE Judged(px[p])
      hb == [NoBeat EXCEPT !.st = "front", !.alone = MStaleLook /\ px[p].hb.alone, !.g = IF MFront /\ Good(x) THEN Uses(x) ELSE None]
  IN
  /\ IF x # px[p] THEN Knows(p, [x EXCEPT !.hb = hb]) ELSE px' = [px EXCEPT ![p].hb = hb] /\ UNCHANGED went
  /\ UNCHANGED <<key, lease, two, used>>

Asks(q) == px[q].fresh.first \/ (MFirst /\ px[q].hb.st = "counted")
Without(x, p) == [x EXCEPT !.hb.beat = @ \ {p}]

NobodySpeaks(p) == ~Elsewhere \/ \A q \in Proxies \ {p} : ~px[q].speaks

\* code: none: only MStaleLook has it
Early(p) ==
  /\ MStaleLook /\ ~px[p].begun /\ NobodySpeaks(p)
  /\ px' = [px EXCEPT ![p].hb.alone = TRUE]
  /\ UNCHANGED <<key, lease, two, went, used>>

\* code: lane.heartbeat, lua/member_beat.lua
Count(p) ==
  LET x == px[p]
      first == x.fresh.on /\ ~x.fresh.first
      hb == [x.hb EXCEPT !.st = "counted", !.beat = {q \in Proxies \ {p} : Asks(q)},
                         !.alone = NobodySpeaks(p) \/ MAnyway \/ (MStaleLook /\ @)]
  IN
  /\ x.hb.st = "front"
  /\ px' = [q \in Proxies |->
       IF q = p THEN [x EXCEPT !.hb = hb, !.speaks = @ \/ (Elsewhere /\ Good(x)), !.fresh.first = @ \/ first, !.offer = IF MFirst \/ first THEN None ELSE @]
       ELSE IF first \/ MFirst THEN Without(px[q], p) ELSE px[q]]
  /\ UNCHANGED <<key, lease, two, went, used>>

(* The reading after. What is told is known at once. *)
\* code: lane.watchArgs, readStatements, lane.trustClock, clockGuard.trust, fleet.nobodyWatches, fleet.vouched, lua/watch.lua
Back(p) ==
  LET h == px[p].hb
      x == [Judged(px[p]) EXCEPT !.hb = NoBeat]
      y == IF h.alone /\ x.fresh.on /\ (x.debt = 0 \/ MAfterGain) /\ Agree THEN Joins(x, x.fresh.gain) ELSE x
      g == IF MFront THEN h.g
           ELSE IF Good(y) \/ (MUntold /\ y.debt = 0) THEN IF MDropped THEN 0 ELSE Uses(y) ELSE None
      hears(q) == g # None /\ q \in h.beat /\ (px[q].fresh.first \/ MFirst)
  IN
  /\ h.st = "counted"
  /\ px' = [q \in Proxies |->
       IF q = p THEN y
       ELSE IF hears(q) THEN [px[q] EXCEPT !.offer = IF @ = None THEN g ELSE Min(@, g)]
       ELSE px[q]]
  /\ went' = [went EXCEPT ![p] = 0]
  /\ UNCHANGED <<key, lease, two, used>>

(* A proxy is stopped, and another one started. *)
\* code: Open, newClockGuard
Restart(p) ==
  /\ Restarts /\ px[p].begun
  /\ ~Elsewhere \/ Gap \/ \E q \in Proxies \ {p} : px[q].speaks
  /\ px' = [q \in Proxies |-> IF q = p THEN New ELSE Without(px[q], p)]
  /\ went' = [went EXCEPT ![p] = 0]
  /\ UNCHANGED <<key, lease, two, used>>

\* code: none: the statements of a proxy are deleted when it is silent
Lapse(p) ==
  /\ Silence
  /\ px' = [px EXCEPT ![p].speaks = FALSE]
  /\ UNCHANGED <<key, lease, two, went, used>>

\* code: none: only MForgets has it
Reconnect(p) ==
  /\ MForgets
  /\ px' = [px EXCEPT ![p] = InStep]
  /\ UNCHANGED <<key, lease, two, went, used>>
---------------------------------------------------------------------------------
(* The master sets the key, and its clock is read behind it. *)
\* code: clock.DriftOf, clock.Padded, guard.verdict, Client.vote
Lock(p, T) ==
  LET x == IF MEarly THEN px[p] ELSE Judged(px[p]) IN
  /\ key = 0 /\ Good(x) /\ (x.speaks \/ ~Elsewhere \/ Silence \/ MUnsaid)
  /\ Knows(p, x)
  /\ key' = Life(T) /\ lease' = T
  /\ two' = (lease > 0)
  /\ UNCHANGED used
---------------------------------------------------------------------------------
(* Clocks. *)

Older(r) == [r EXCEPT !.age = @ + 1]
Gaining(x, d) ==
  IF ~x.begun THEN x
  ELSE [x EXCEPT !.last.gain = @ + d, !.ring = {[r EXCEPT !.gain = @ + d] : r \in @}, !.fresh.gain = IF x.fresh.on THEN @ + d ELSE 0]
Aging(x) ==
  [x EXCEPT !.ring = {Older(r) : r \in {o \in @ : o.age + 1 < TTL}}, !.last = IF MOwnAge THEN [@ EXCEPT !.age = Min(TTL, @ + 1)] ELSE @,
            !.age = IF x.begun THEN Min(TTL, @ + 1) ELSE 0, !.debt = Max(0, @ - 1),
            !.fresh.age = IF x.fresh.on /\ MOverlap THEN Min(TTL, @ + 1) ELSE 0]

(* True time goes on. The clocks of the proxies P stand still: the master gains on them. *)
\* code: none: time passes, and the clocks of paused machines stand still
Tick(P) ==
  /\ used.pause + Cardinality(P) <= MaxPause
  /\ used' = [used EXCEPT !.pause = @ + Cardinality(P)]
  /\ key' = Max(0, key - 1)
  /\ lease' = IF PauseUnseen /\ P # {} THEN lease ELSE Max(0, lease - 1)
  /\ px' = [p \in Proxies |-> IF p \in P THEN Gaining(px[p], 1) ELSE Aging(px[p])]
  /\ UNCHANGED <<two, went>>

MayGo(way) == Blind \/ \A p \in Proxies : went[p] # -way
Went(way) == [p \in Proxies |-> IF MaxBack > 0 /\ px[p].begun THEN way ELSE went[p]]

\* code: none: the master's clock goes forward
Forward(d) ==
  /\ used.gain + d <= MaxGain /\ MayGo(1)
  /\ went' = Went(1)
  /\ used' = [used EXCEPT !.gain = @ + d]
  /\ key' = Max(0, key - d)
  /\ px' = [p \in Proxies |-> Gaining(px[p], d)]
  /\ UNCHANGED <<lease, two>>

\* code: none: the master's clock goes back
Backward ==
  /\ used.back < MaxBack /\ MayGo(-1)
  /\ went' = Went(-1)
  /\ used' = [used EXCEPT !.back = @ + 1]
  /\ key' = IF key = 0 THEN 0 ELSE key + 1
  /\ px' = [p \in Proxies |-> Gaining(px[p], -1)]
  /\ UNCHANGED <<lease, two>>

(* A key that would live longer than any is cut, by anybody, at any time. *)
\* code: clamp.run, lua/clamp.lua
Clamp ==
  /\ key > Life(TTL)
  /\ key' = Life(TTL)
  /\ UNCHANGED <<lease, two, px, went, used>>

Next ==
  \/ \E P \in SUBSET Proxies : Tick(P)
  \/ \E d \in 1..MaxGain : Forward(d)
  \/ Backward \/ Clamp
  \/ \E p \in Proxies : Read(p) \/ Told(p) \/ Front(p) \/ Count(p) \/ Back(p) \/ Restart(p) \/ Lapse(p) \/ Early(p) \/ Reconnect(p) \/ \E T \in 1..TTL : Lock(p, T)
Spec == Init /\ [][Next]_vars

MutualExclusion == ~two
Perms == Permutations(Newcomers) \cup Permutations(Proxies \ Newcomers)
==================================================================================
