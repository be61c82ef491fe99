#include "runtime/inproc/channel.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "runtime/device/device_status.h"
#include "runtime/inproc/addresses.h"

namespace foretrain {
namespace {

bool Overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  return At(a, 0) < At(b, b_bytes) && At(b, 0) < At(a, a_bytes);
}

std::string_view DtypeName(FtDtype dtype) {
  constexpr std::array<std::string_view, 7> kNames = {"f32", "bf16", "f16", "i32",
                                                      "f64", "fp8",  "i8"};
  return static_cast<std::size_t>(dtype) < kNames.size() ? kNames[dtype] : "unknown";
}

// Describes what is wrong with a call by itself; "" if nothing.
std::string MalformedParts(const CommCall& call, std::int64_t members, std::int64_t size) {
  if (call.in_parts == nullptr || call.out_parts == nullptr) return "no lengths of its parts";
  std::int64_t sent = 0, came = 0;
  for (std::int64_t other = 0; other < members; ++other) {
    if (call.in_parts[other] < 0 || call.out_parts[other] < 0) return "a part of negative length";
    sent += call.in_parts[other];
    came += call.out_parts[other];
  }
  return Overlap(call.in, sent * size, call.out, came * size) ? "in and out that overlap" : "";
}

// Overlapping memory would let one member read what another has already overwritten. Allowed are
// exact aliases: all-reduce in place, and a shard at its own place in the tensor.
std::string Malformed(const CommCall& call, std::int64_t members, std::int64_t member) {
  const std::int64_t size = BytesOf(call.dtype);
  if (size == 0) return "an unknown dtype";
  if (call.elements < 0) return "a negative number of elements";
  if (call.kind == OpKind::kSend || call.kind == OpKind::kRecv) {
    return members == 2 ? "" : "a group of " + std::to_string(members);
  }
  const std::int64_t whole = call.elements * size;
  if (call.kind == OpKind::kAllToAllV) return MalformedParts(call, members, size);
  if (call.kind == OpKind::kAllToAll || call.kind == OpKind::kRotate) {
    if (call.kind == OpKind::kAllToAll && call.elements % members != 0) {
      return "a tensor that " + std::to_string(members) + " members cannot share evenly";
    }
    return Overlap(call.in, whole, call.out, whole) ? "in and out that overlap" : "";
  }
  if (call.kind == OpKind::kAllReduce) {
    if (call.accumulate && call.in == call.out && call.elements > 0) return "out added to itself";
    if (call.in != call.out && Overlap(call.in, whole, call.out, whole)) {
      return "in and out that overlap in part";
    }
    return "";
  }
  if (call.elements % members != 0) {
    return "a tensor that " + std::to_string(members) + " members cannot share evenly";
  }
  const std::int64_t shard = whole / members;
  const bool gather = call.kind == OpKind::kAllGather;
  const void* const wide = gather ? call.out : call.in;
  const void* const narrow = gather ? call.in : call.out;
  if (narrow != At(wide, shard * member) && Overlap(wide, whole, narrow, shard)) {
    return "a shard that lies elsewhere in the tensor than its own place";
  }
  return "";
}

}  // namespace

std::int64_t BytesOf(FtDtype dtype) {
  switch (dtype) {
    case FT_BF16:
    case FT_F16:
      return 2;
    case FT_F32:
    case FT_I32:
      return 4;
    case FT_F64:
      return 8;
    case FT_FP8:
    case FT_I8:
    case FT_U8:
      return 1;
    case FT_NF4:  // moved as whole bytes, as FT_U8
    case FT_E5M2:
    case FT_TF32:
      break;
  }
  return 0;
}

// The entries are read one by one, so the result may mix moments. Channels live as long as the
// world, so the pointers stay valid.
std::vector<const InprocChannel*> WaitTable::Of(int rank) const {
  std::vector<const InprocChannel*> channels;
  for (const auto& entry : waits_[static_cast<std::size_t>(rank)]) {
    if (const InprocChannel* channel = entry.load()) channels.push_back(channel);
  }
  return channels;
}

// Vectors get their final size here, so that calls allocate nothing. A sum has one source more if
// it accumulates.
InprocChannel::InprocChannel(const ChannelContext& context, std::vector<int> members)
    : context_(context),
      members_(std::move(members)),
      begun_(members_.size()),
      left_(members_.size()),
      gate_(context.clock, context.control) {
  for (Slot& slot : slots_) {
    slot.calls.resize(members_.size());
    slot.events.resize(members_.size());
  }
  sources_.resize(members_.size());
  for (auto& sources : sources_) sources.reserve(members_.size() + 1);
}

// A call passes three stages: all arrive, (all-reduce) all have summed their parts, all leave. On
// an asynchronous device each stage is also an event, for which the other members' queues wait.
Result<CommTimes> InprocChannel::Call(int member, std::int64_t sequence, const CommCall& call,
                                      Queue at, FtQueue* queue) {
  Slot& slot = slots_[static_cast<std::size_t>(sequence % 2)];
  CommTimes times;
  times.arrived_ns = context_.clock.Now();
  const int rank = members_[static_cast<std::size_t>(member)];
  context_.flight.SetPhase(rank, at, FlightPhase::kAtPeers);
  context_.waits.Set(rank, at, this);
  FT_TRY(Record(slot, kArrive, member, queue));
  FT_TRY(Arrive(member, sequence, slot, call));
  FT_TRY(HoldUp(slot, kArrive, member, queue));
  if (IsLater() && call.started != nullptr) {
    FT_TRY(Checked(context_.api.event_record(queue, call.started), "record an event",
                   context_.api.queue_error(queue)));
  }
  times.started_ns = slot.started_ns;
  context_.flight.SetPhase(rank, at, FlightPhase::kRunning);
  FT_TRY(Move(member, sequence, slot, queue));
  FT_TRY(Record(slot, kLeave, member, queue));
  left_[static_cast<std::size_t>(member)].store(sequence + 1);
  context_.flight.SetPhase(rank, at, FlightPhase::kAtPeers);
  FT_TRY(Pass(slot, kLeave, member, sequence, /*wait=*/true));
  FT_TRY(HoldUp(slot, kLeave, member, queue));
  context_.waits.Set(rank, at, nullptr);
  times.ended_ns = context_.clock.Now();
  return times;
}

// The last member to arrive checks all calls and publishes the verdict; the others wait for it.
// Every member then returns the same error, if any.
Result<void> InprocChannel::Arrive(int member, std::int64_t sequence, Slot& slot,
                                   const CommCall& call) {
  // The count below publishes the call: the last member reads all calls after its own increment.
  slot.calls[static_cast<std::size_t>(member)] = call;
  begun_[static_cast<std::size_t>(member)].store(sequence + 1);
  if (slot.count[kArrive].fetch_add(1) + 1 == Target(sequence)) {
    slot.started_ns = context_.clock.Now();
    slot.verdict = Check(slot, sequence);
    slot.checked.store(sequence + 1);
    gate_.Wake();
  } else {
    const std::int64_t deadline = context_.clock.Now() + context_.timeout_ns;
    const WaitEnd end = gate_.Wait([&] { return slot.checked.load() >= sequence + 1; }, deadline);
    if (end == WaitEnd::kTimeout) {
      return tl::unexpected<Error>(Expired(kArrive, member, sequence, call));
    }
    if (end == WaitEnd::kAborted) return tl::unexpected<Error>(context_.control.AbortedError());
  }
  if (slot.verdict.has_value()) return tl::unexpected<Error>(*slot.verdict);
  return {};
}

// Stages are counted over all calls of a slot, so that counters never need a reset: call k of a
// slot is complete at Target(k).
Result<void> InprocChannel::Pass(Slot& slot, Stage stage, int member, std::int64_t sequence,
                                 bool wait) {
  const std::int64_t target = Target(sequence);
  if (slot.count[static_cast<std::size_t>(stage)].fetch_add(1) + 1 == target) {
    gate_.Wake();
    return {};
  }
  if (!wait) return {};
  const std::int64_t deadline = context_.clock.Now() + context_.timeout_ns;
  const WaitEnd end = gate_.Wait(
      [&] { return slot.count[static_cast<std::size_t>(stage)].load() >= target; }, deadline);
  if (end == WaitEnd::kAborted) return tl::unexpected<Error>(context_.control.AbortedError());
  if (end == WaitEnd::kTimeout) {
    return tl::unexpected<Error>(
        Expired(stage, member, sequence, slot.calls[static_cast<std::size_t>(member)]));
  }
  return {};
}

// Compares every call with the first. For point-to-point calls the second member must receive what
// the first sends.
std::optional<Error> InprocChannel::Check(const Slot& slot, std::int64_t sequence) const {
  const CommCall& first = slot.calls[0];
  const bool p2p = first.kind == OpKind::kSend || first.kind == OpKind::kRecv;
  for (std::size_t i = 0; i < slot.calls.size(); ++i) {
    const CommCall& call = slot.calls[i];
    const OpKind kind = p2p && i == 1 ? OpKind::kRecv : p2p ? OpKind::kSend : first.kind;
    if (call.kind == kind && call.dtype == first.dtype && call.elements == first.elements &&
        call.accumulate == first.accumulate && call.maximum == first.maximum &&
        call.tag == first.tag) {
      continue;
    }
    const std::size_t other = std::max<std::size_t>(i, 1);
    return Error{ErrorCode::kIo,
                 "ranks disagree on call #" + std::to_string(sequence) + " of a group: rank " +
                     std::to_string(members_[0]) + " calls " + CallText(first, -1) + ", rank " +
                     std::to_string(members_[other]) + " calls " + CallText(slot.calls[other], -1)};
  }
  if (first.kind == OpKind::kAllToAllV) {
    if (auto wrong = CheckParts(slot, sequence)) return wrong;
  }
  for (std::size_t i = 0; i < slot.calls.size(); ++i) {
    const std::string wrong = Malformed(slot.calls[i], Count(), static_cast<std::int64_t>(i));
    if (wrong.empty()) continue;
    return Error{ErrorCode::kIo, "rank " + std::to_string(members_[i]) + " calls " +
                                     CallText(slot.calls[i], sequence) + " with " + wrong};
  }
  return std::nullopt;
}

// O(members^2): each part must have the same length at both ends.
std::optional<Error> InprocChannel::CheckParts(const Slot& slot, std::int64_t sequence) const {
  for (std::size_t i = 0; i < slot.calls.size(); ++i) {
    for (std::size_t j = 0; j < slot.calls.size(); ++j) {
      const CommCall &from = slot.calls[i], &to = slot.calls[j];
      // reported as malformed below
      if (from.in_parts == nullptr || to.out_parts == nullptr) continue;
      if (from.in_parts[j] == to.out_parts[i]) continue;
      return Error{ErrorCode::kIo,
                   CallText(from, sequence) + ": rank " + std::to_string(members_[i]) + " sends " +
                       std::to_string(from.in_parts[j]) + " elements, of which rank " +
                       std::to_string(members_[j]) + " awaits " + std::to_string(to.out_parts[i])};
    }
  }
  return std::nullopt;
}

std::vector<int> InprocChannel::MissingFor(int rank) const {
  const auto place = std::find(members_.begin(), members_.end(), rank);
  const auto member = static_cast<std::size_t>(place - members_.begin());
  // A member that has finished its part waits for the others' parts; else it waits for their
  // arrival.
  const std::int64_t sequence = begun_[member].load() - 1;
  const auto& reached = left_[member].load() > sequence ? left_ : begun_;
  std::vector<int> missing;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (i != member && reached[i].load() <= sequence) missing.push_back(members_[i]);
  }
  return missing;
}

// Follows the wait table from rank to rank, until it reaches ranks that wait for no one.
std::vector<int> InprocChannel::CausesOf(std::vector<int> ranks) const {
  std::vector<int> causes;
  const std::size_t direct = ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {  // the list grows while it is walked
    const auto last = context_.flight.Last(ranks[i]);
    const bool runs = last.has_value() && last->phase == FlightPhase::kRunning;
    const auto channels = context_.waits.Of(ranks[i]);
    if (runs || channels.empty()) {
      if (i >= direct) causes.push_back(ranks[i]);
      continue;
    }
    for (const InprocChannel* channel : channels) {
      for (const int next : channel->MissingFor(ranks[i])) {
        if (std::find(ranks.begin(), ranks.end(), next) == ranks.end()) ranks.push_back(next);
      }
    }
  }
  return causes;
}

// Names every missing member with its last op, and the ranks that hold these up.
Error InprocChannel::Expired(Stage stage, int member, std::int64_t sequence,
                             const CommCall& call) const {
  const int rank = members_[static_cast<std::size_t>(member)];
  std::string text = "rank " + std::to_string(rank) + " waited " +
                     FormatSeconds(SecondsFromNs(context_.timeout_ns)) + " at " +
                     CallText(call, sequence);
  std::vector<int> missing;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& reached = stage == kArrive ? begun_[i] : left_[i];
    if (reached.load() > sequence || members_[i] == rank) continue;
    missing.push_back(members_[i]);
    text += "; rank " + std::to_string(members_[i]) +
            (stage == kArrive ? " did not arrive, " : " did not finish its part, ") +
            LastText(members_[i]);
  }
  for (const int cause : CausesOf(missing)) {
    text += "; behind that is rank " + std::to_string(cause) + ", " + LastText(cause);
  }
  return {ErrorCode::kTimeout, std::move(text)};
}

std::string InprocChannel::CallText(const CommCall& call, std::int64_t sequence) const {
  std::string text(Name(call.kind));
  if (sequence >= 0) text += " #" + std::to_string(sequence);
  if (!call.site.name.empty()) text += " " + std::string(call.site.name);
  text += " of " + std::to_string(call.elements) + " " + std::string(DtypeName(call.dtype));
  if (call.accumulate) text += " accumulated";
  if (call.maximum) text += " by maximum";
  text += " (step " + std::to_string(call.site.step);
  if (call.site.op != kNoOp) text += ", " + Describe(call.site.op);
  return text + ")";
}

std::string InprocChannel::LastText(int rank) const {
  const auto last = context_.flight.Last(rank);
  if (!last.has_value()) return "it has started no op";
  const std::string what = context_.op_text ? context_.op_text(rank, last->op) : Describe(last->op);
  const char* const state = last->phase == FlightPhase::kRunning   ? ", running"
                            : last->phase == FlightPhase::kAtPeers ? ", waiting for peers"
                                                                   : ", done";
  return "its last op was " + what + " (step " + std::to_string(last->step) + state + " for " +
         FormatSeconds(SecondsFromNs(context_.clock.Now() - last->time_ns)) + ")";
}

}  // namespace foretrain
