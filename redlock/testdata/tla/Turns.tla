---------------------------------- MODULE Turns ----------------------------------
(***************************************************************************)
(* Turns between redlockds. Each of them has waiters for one resource all  *)
(* the time, and hands it over among its own in the batch of the UNLOCK.   *)
(* After how long has a waiter of another redlockd got it?                 *)
(*                                                                         *)
(* The rules (wait_handover.go):                                           *)
(* 1. Hand-overs that follow each other end after HandoverTime. Then the   *)
(*    resource is left free for a moment, a window, and the masters tell   *)
(*    the others of it, whose heads ask at once. When nobody takes it, the *)
(*    one that has left it goes on.                                        *)
(* 2. A window is won by who is near: two that are nearer come before. A   *)
(*    head that others keep waiting for HandoverTime says so, and for how  *)
(*    long it waits. The others leave it their next window, or the next    *)
(*    that they are told of, once, within YieldLife times HandoverTime;    *)
(*    not those whose own head waits for as long, nor those that leave it  *)
(*    to one that waits for longer.                                        *)
(* 3. What a queue knows of its hand-overs, and of others that wait, stays *)
(*    when nobody waits there for a moment: else a client alone, which     *)
(*    locks again each time, is never at the end of its time.              *)
(*                                                                         *)
(* Time is in holds: each step one holder releases, and somebody has it    *)
(* next. A head is denied, or told, in each. Who wins among those that may *)
(* is open. Of a window that is told to all, all heads ask. That a waiter  *)
(* is told of a release at all is in Wake.tla; who waits at one redlockd   *)
(* gets it first come first served.                                        *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: then somebody waits for       *)
(* longer than Bound.                                                      *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Near, Far,     \* redlockds: those that are near the masters, and those farther away than these
  HandoverTime,  \* in holds
  YieldLife,     \* in HandoverTimes
  Bound,         \* for how many holds a redlockd waits at most
  MNoWindow,   \* hand-overs go on without end
  MNotTold,    \* the masters tell nobody of a window
  MForgets,    \* hand-overs are forgotten when nobody waits
  MSilent,     \* a head that others have kept waiting says nothing
  MNoYield,    \* nobody leaves it a window
  MForgetsWho, \* whom a window is left to is forgotten when nobody waits
  MLast        \* it is left to who has said so last, for however short that one waits

All == Near \cup Far
Less(i) == IF i > 0 THEN i - 1 ELSE 0

VARIABLES
  holder, \* which redlockd has it
  row,    \* for how long its hand-overs follow each other; -1: there was none
  lag,    \* for how long others keep each head waiting, or since when it has said so; -1: they do not
  yield,  \* for how long each one leaves a window to another
  whose,  \* for how long that one has waited
  wait    \* for how long each one has not had it
vars == <<holder, row, lag, yield, whose, wait>>

Init ==
  /\ holder \in All
  /\ row = -1
  /\ lag = [p \in All |-> -1]
  /\ yield = [p \in All |-> 0]
  /\ whose = [p \in All |-> 0]
  /\ wait = [p \in All |-> 0]

(* Somebody has it next. Those in used have left it a window, those in said say that they were kept waiting, one of them last. *)
Passes(next, newRow, used) ==
  LET late == [p \in All |-> IF p = next THEN -1 ELSE lag[p] + 1]
      waited == [p \in All |-> IF p = next THEN 0 ELSE IF wait[p] > Bound THEN wait[p] ELSE wait[p] + 1]
      said == {p \in All : late[p] >= HandoverTime /\ ~MSilent}
      left == [p \in All |-> IF p \in used \/ (MForgetsWho /\ p = holder) THEN 0 ELSE Less(yield[p])]
      whom == [p \in All |-> IF left[p] = 0 THEN 0 ELSE whose[p] + 1]
      longest == [p \in All |-> CHOOSE w \in {waited[q] : q \in said \ {p}} \cup {0} : \A q \in said \ {p} : waited[q] <= w]
  IN
  \E last \in IF said = {} THEN {next} ELSE said :
  LET heeds(p) == /\ ~MNoYield /\ said # {}
                  /\ IF MLast THEN p # last ELSE longest[p] > waited[p] /\ longest[p] >= whom[p]
  IN
  /\ holder' = next /\ row' = newRow
  /\ lag' = [p \in All |-> IF p \in said THEN 0 ELSE IF late[p] > HandoverTime THEN HandoverTime ELSE late[p]]
  /\ yield' = [p \in All |-> IF heeds(p) THEN YieldLife * HandoverTime ELSE IF MLast /\ p \in said THEN 0 ELSE left[p]]
  /\ whose' = [p \in All |-> IF heeds(p) /\ ~MLast THEN longest[p] ELSE IF yield'[p] = 0 THEN 0 ELSE whom[p]]
  /\ wait' = waited

Full == row >= HandoverTime

\* code: waiting.handOverLocked, fairness.leave
HandsOver ==
  /\ ~Full \/ MNoWindow
  /\ Passes(holder, IF MForgets THEN -1 ELSE IF Full THEN row ELSE row + 1, {})

Nearer(p, S) == IF p \in Far THEN {q \in S : q \in Near} ELSE {}

\* code: waiting.handOverLocked, waiting.windowAnnounced, waiting.windowLength, fairness.yields, waiting.outrunLocked, waiting.yieldLocked
Window ==
  LET others == All \ {holder}
      yields == {p \in others : yield[p] > 0}
      asks == {p \in others \ yields : Cardinality(Nearer(p, others \ yields)) < 2}
  IN
  /\ Full /\ ~MNoWindow
  /\ \/ \E p \in asks : Passes(p, -1, yields \cup {holder})
     \/ (asks = {} \/ MNotTold \/ (asks \subseteq Far /\ yield[holder] = 0)) /\ Passes(holder, -1, yields \cup {holder})

Next == HandsOver \/ Window
Spec == Init /\ [][Next]_vars

(* Nobody waits for ever. *)
Served == \A p \in All : wait[p] <= Bound
Perms == Permutations(Near) \cup Permutations(Far)
=================================================================================
