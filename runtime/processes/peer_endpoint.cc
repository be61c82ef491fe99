#include "runtime/processes/peer_endpoint.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/io/sha256.h"
#include "base/units.h"
#include "runtime/device/device_status.h"
#include "runtime/inproc/addresses.h"
#include "runtime/inproc/channel.h"
#include "runtime/inproc/part_of.h"

namespace foretrain {
namespace {

constexpr int kLookMs = 50;  // interval of checking whether the run has ended
// The reason why a process ends arrives on another connection than its end: this long is waited for
// it.
constexpr auto kToldWithin = std::chrono::milliseconds(2000);

}  // namespace

// It is sent as it lies in memory, and has no padding: five fields of 8 bytes, then four of 4. `op`
// and `step` are only for messages.
struct PeerEndpoint::Signature {
  std::int64_t sequence = 0;
  std::int64_t elements = 0;
  std::int64_t tag = 0;
  std::int64_t step = 0;
  OpId op = kNoOp;
  std::int32_t kind = 0;
  std::int32_t dtype = 0;
  std::int32_t accumulate = 0;
  std::int32_t maximum = 0;

  // "all_reduce of 3 elements". Another process has sent it, so `kind` may be any number.
  std::string Text() const {
    return kind >= 0 && kind < kOpKindCount ? TextOf(static_cast<OpKind>(kind), elements)
                                            : "no kind of call";
  }
};

PeerEndpoint::PeerEndpoint(const WorldContext& context, const ChannelKey& key, int rank,
                           std::unique_ptr<PeerTransport> transport, TransferCodes codes)
    : api_(context.api),
      clock_(context.clock),
      control_(context.control),
      timeout_ns_(context.timeout_ns),
      op_text_(context.op_text),
      key_(key),
      rank_(rank),
      member_(key.MemberOf(rank)),
      transport_(std::move(transport)),
      codes_(std::move(codes)) {}

std::string PeerEndpoint::TextOf(OpKind kind, std::int64_t elements) {
  return std::string(Name(kind)) + " of " + std::to_string(elements) + " elements";
}

// Signatures end the wait for peers: what follows is the transfer.
Result<CommTimes> PeerEndpoint::Call(const CommCall& call, FtQueue* queue) {
  CommTimes times;
  times.arrived_ns = clock_.Now();
  FT_TRY(Meet(call));
  times.started_ns = clock_.Now();
  FT_TRY(Move(call, queue));
  times.ended_ns = clock_.Now();
  ++sequence_;
  return times;
}

// Everything that must agree before bytes are moved.
PeerEndpoint::Signature PeerEndpoint::SignatureOf(const CommCall& call) const {
  Signature signature;
  signature.sequence = sequence_;
  signature.elements = call.elements;
  signature.tag = call.tag;
  signature.step = call.site.step;
  signature.op = call.site.op;
  // The two ends of a transfer make different calls: both count as a send.
  signature.kind = static_cast<std::int32_t>(IsTransfer(call.kind) ? OpKind::kSend : call.kind);
  signature.dtype = static_cast<std::int32_t>(call.dtype);
  signature.accumulate = call.accumulate ? 1 : 0;
  signature.maximum = call.maximum ? 1 : 0;
  return signature;
}

// All members exchange signatures first: a mismatch is an error on every member instead of wrong
// data.
Result<void> PeerEndpoint::Meet(const CommCall& call) {
  Signature mine = SignatureOf(call);
  std::vector<Signature> theirs(key_.members.size());
  std::vector<Piece> pieces;
  for (int other = 0; other < Count(); ++other) {
    if (other == member_) continue;
    auto* const at = reinterpret_cast<char*>(&theirs[static_cast<std::size_t>(other)]);
    pieces.push_back({other, true, reinterpret_cast<char*>(&mine), sizeof mine});
    pieces.push_back({other, false, at, sizeof mine});
  }
  FT_TRY(Exchange(pieces, call));
  for (int other = 0; other < Count(); ++other) {
    if (other == member_) continue;
    const Signature& their = theirs[static_cast<std::size_t>(other)];
    if (their.sequence == mine.sequence && their.elements == mine.elements &&
        their.tag == mine.tag && their.kind == mine.kind && their.dtype == mine.dtype &&
        their.accumulate == mine.accumulate && their.maximum == mine.maximum) {
      continue;
    }
    return Fail(ErrorCode::kIo,
                "members disagree on call " + std::to_string(sequence_) + " of " +
                    key_.Text("communicator") + ": rank " + std::to_string(rank_) + " calls " +
                    TextOf(call.kind, call.elements) + ", rank " + std::to_string(RankOf(other)) +
                    " " + their.Text() + " (" +
                    (IsValidId(their.op) ? op_text_(RankOf(other), their.op) : Describe(their.op)) +
                    ", step " + std::to_string(their.step) + ")");
  }
  return {};
}

// All-reduce is a reduce-scatter followed by an all-gather of the parts. Each member then sends 2
// (n - 1) / n of the tensor.
Result<void> PeerEndpoint::Move(const CommCall& call, FtQueue* queue) {
  const auto members = static_cast<std::size_t>(Count());
  switch (call.kind) {
    case OpKind::kAllReduce:
      FT_TRY(Reduce(call, queue));
      return GatherParts(call);
    case OpKind::kReduceScatter:
      return Reduce(call, queue);
    case OpKind::kAllGather:
      return Gather(call);
    case OpKind::kAllToAll: {
      const std::vector<std::int64_t> equal(members, call.elements / Count());
      return ExchangeParts(call, equal, equal);
    }
    case OpKind::kAllToAllV:
      return ExchangeParts(call, {call.in_parts, call.in_parts + members},
                           {call.out_parts, call.out_parts + members});
    case OpKind::kRotate:
      return Rotate(call);
    case OpKind::kSend:
    case OpKind::kRecv:
      return Pass(call);
    default:
      break;
  }
  return Fail(ErrorCode::kIo, TextOf(call.kind, call.elements) + ": no communication");
}

// Each member receives its part of all other members' tensors and sums them in member order, as
// threads do.
Result<void> PeerEndpoint::Reduce(const CommCall& call, FtQueue* queue) {
  const std::int64_t size = BytesOf(call.dtype);
  const bool scatter = call.kind == OpKind::kReduceScatter;
  const auto part_of = [&](int member) {
    const std::int64_t shard = call.elements / Count();
    return scatter ? Part{shard * member, shard} : PartOf(call.elements, Count(), member);
  };
  const Part mine = part_of(member_);
  room_.resize(static_cast<std::size_t>(mine.size * size * Count()));
  std::vector<Piece> pieces;
  std::vector<const void*> sources;
  void* const out = scatter ? call.out : At(call.out, mine.begin * size);
  if (call.accumulate) sources.push_back(out);
  for (int other = 0; other < Count(); ++other) {
    if (other == member_) {
      sources.push_back(At(call.in, mine.begin * size));
      continue;
    }
    const Part theirs = part_of(other);
    char* const from = const_cast<char*>(At(call.in, theirs.begin * size));
    char* const to = room_.data() + mine.size * size * other;
    pieces.push_back({other, true, from, theirs.size * size});
    pieces.push_back({other, false, to, mine.size * size});
    sources.push_back(to);
  }
  FT_TRY(Exchange(pieces, call));
  if (mine.size == 0) return {};
  const FtSumRanks sum{sources.data(), out,
                       mine.size,      static_cast<std::int32_t>(sources.size()),
                       call.maximum,   call.dtype};
  return Checked(api_.sum_ranks(queue, &sum), "sum over ranks", api_.queue_error(queue));
}

// The second half of an all-reduce: each member's part of `out` is final, and all others get it in
// place.
Result<void> PeerEndpoint::GatherParts(const CommCall& call) {
  const std::int64_t size = BytesOf(call.dtype);
  const Part mine = PartOf(call.elements, Count(), member_);
  std::vector<Piece> pieces;
  for (int other = 0; other < Count(); ++other) {
    if (other == member_) continue;
    const Part theirs = PartOf(call.elements, Count(), other);
    pieces.push_back({other, true, At(call.out, mine.begin * size), mine.size * size});
    pieces.push_back({other, false, At(call.out, theirs.begin * size), theirs.size * size});
  }
  return Exchange(pieces, call);
}

// `in` may already be the member's place in `out`; memmove also allows that they overlap.
Result<void> PeerEndpoint::Gather(const CommCall& call) {
  const std::int64_t bytes = call.elements / Count() * BytesOf(call.dtype);
  char* const own = At(call.out, bytes * member_);
  if (own != call.in && bytes > 0) std::memmove(own, call.in, static_cast<std::size_t>(bytes));
  std::vector<Piece> pieces;
  for (int other = 0; other < Count(); ++other) {
    if (other == member_) continue;
    pieces.push_back({other, true, own, bytes});
    pieces.push_back({other, false, At(call.out, bytes * other), bytes});
  }
  return Exchange(pieces, call);
}

// Parts lie one after the other in both tensors, in member order. `sent` and `came` are their
// lengths in elements.
Result<void> PeerEndpoint::ExchangeParts(const CommCall& call,
                                         const std::vector<std::int64_t>& sent,
                                         const std::vector<std::int64_t>& came) {
  const std::int64_t size = BytesOf(call.dtype);
  std::vector<Piece> pieces;
  std::int64_t from = 0, to = 0;
  for (int other = 0; other < Count(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    char* const out = At(call.out, to * size);
    char* const in = const_cast<char*>(At(call.in, from * size));
    if (other == member_) {
      if (sent[at] > 0) std::memcpy(out, in, static_cast<std::size_t>(sent[at] * size));
    } else {
      pieces.push_back({other, true, in, sent[at] * size});
      pieces.push_back({other, false, out, came[at] * size});
    }
    from += sent[at];
    to += came[at];
  }
  return Exchange(pieces, call);
}

// With two members, next and before are the same rank.
Result<void> PeerEndpoint::Rotate(const CommCall& call) {
  const std::int64_t bytes = call.elements * BytesOf(call.dtype);
  const int next = (member_ + 1) % Count();
  const int before = (member_ + Count() - 1) % Count();
  char* const in = const_cast<char*>(static_cast<const char*>(call.in));
  return Exchange({{next, true, in, bytes}, {before, false, static_cast<char*>(call.out), bytes}},
                  call);
}

Result<void> PeerEndpoint::Pass(const CommCall& call) {
  const bool sends = call.kind == OpKind::kSend;
  char* const at =
      sends ? const_cast<char*>(static_cast<const char*>(call.in)) : static_cast<char*>(call.out);
  return Exchange({{1 - member_, sends, at, call.elements * BytesOf(call.dtype)}}, call);
}

// The codes follow in a second exchange, once all bytes have moved: neither end then changes them.
Result<void> PeerEndpoint::Exchange(const std::vector<Piece>& pieces, const CommCall& call) {
  FT_TRY(MoveAll(pieces, call));
  if (!codes_.IsOn()) return {};
  std::vector<std::string> own, came;
  for (const Piece& piece : pieces) own.push_back(codes_.Of(piece));
  came = own;
  std::vector<Piece> moved;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    moved.push_back({pieces[i].member, pieces[i].sends, came[i].data(),
                     static_cast<std::int64_t>(came[i].size())});
  }
  FT_TRY(MoveAll(moved, call));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (EqualInConstantTime(own[i], came[i])) continue;
    return Fail(ErrorCode::kIo, TextOf(call.kind, call.elements) + ": bytes from rank " +
                                    std::to_string(RankOf(pieces[i].member)) +
                                    " arrived changed; check the network between the machines");
  }
  return {};
}

// The deadline restarts with each progress.
Result<void> PeerEndpoint::MoveAll(const std::vector<Piece>& pieces, const CommCall& call) {
  transport_->Start(pieces);
  std::int64_t deadline_ns = clock_.Now() + timeout_ns_;
  std::int64_t done = 0;
  for (;;) {
    const TransportState state = transport_->Advance(kLookMs);
    if (!state.trouble.empty()) return tl::unexpected<Error>(Lost(state, call));
    if (state.finished) return {};
    if (state.done > done) {
      done = state.done;
      deadline_ns = clock_.Now() + timeout_ns_;
      continue;
    }
    if (control_.Aborted()) return tl::unexpected<Error>(control_.AbortedError());
    if (clock_.Now() > deadline_ns) {
      return Fail(ErrorCode::kTimeout, TextOf(call.kind, call.elements) + ": waited " +
                                           FormatSeconds(SecondsFromNs(timeout_ns_)) +
                                           " for rank " + std::to_string(RankOf(state.member)));
    }
  }
}

// If the process has said why it ends, that is the error. The wait is bounded by kToldWithin. The
// listening thread of the process group reports the reason by aborting the run.
Error PeerEndpoint::Lost(const TransportState& state, const CommCall& call) const {
  const auto until = std::chrono::steady_clock::now() + kToldWithin;
  while (!control_.Aborted() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (control_.Aborted()) return control_.AbortedError();
  return {ErrorCode::kIo, TextOf(call.kind, call.elements) + ": rank " +
                              std::to_string(RankOf(state.member)) + ": " + state.trouble};
}

}  // namespace foretrain
