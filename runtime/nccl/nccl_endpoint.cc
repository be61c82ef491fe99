#include "runtime/nccl/nccl_endpoint.h"

#include <array>
#include <utility>

#include "runtime/device/device_status.h"
#include "runtime/inproc/addresses.h"

namespace foretrain {
namespace {

// NCCL's type for a dtype, and the number of its values for an element. Formats that NCCL cannot
// sum are moved as bytes.
struct Type {
  int type = kNcclUint8;
  std::int64_t each = 1;  // values of `type` in an element
  std::int64_t bytes = 1;
  bool sums = false;
};
Type TypeOf(FtDtype dtype) {
  switch (dtype) {
    case FT_F32:
      return {kNcclFloat32, 1, 4, true};
    case FT_BF16:
      return {kNcclBfloat16, 1, 2, true};
    case FT_F16:
      return {kNcclFloat16, 1, 2, true};
    case FT_F64:
      return {kNcclFloat64, 1, 8, true};
    case FT_I32:
      return {kNcclInt32, 1, 4, true};
    default:
      return {};
  }
}

std::string TextOf(const CommCall& call) {
  std::string text(Name(call.kind));
  if (!call.site.name.empty()) text += " " + std::string(call.site.name);
  return text + " of " + std::to_string(call.elements) + " (step " +
         std::to_string(call.site.step) + ")";
}

}  // namespace

std::string NcclEndpoint::LastText() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_.empty() ? "before its first call" : "at " + last_;
}

Result<void> NcclEndpoint::Told(int result, const CommCall& call) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return {};
  return Fail(ErrorCode::kIo, TextOf(call) + ": " + set_.TextOf(result, comm_));
}

// After an abort NCCL has freed the communicator, and asking it would read freed memory.
int NcclEndpoint::State() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return aborted_ ? kNcclSuccess : set_.StateOf(comm_);
}

void NcclEndpoint::Abort() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!aborted_) static_cast<void>(set_.nccl_.ncclCommAbort(comm_));
  aborted_ = true;
}

// Serializes NCCL's calls on comm_ with Abort, which frees it.
template <class Work>
Result<void> NcclEndpoint::Guarded(const CommCall& call, Work work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = TextOf(call);
  if (aborted_) return tl::unexpected<Error>(set_.control_.AbortedError());
  return work();
}

// The call returns once NCCL has put its kernels on the stream, not when they have ended. The
// host's times are those of giving the work. mutex_ is held only while NCCL is called: Abort must
// be able to end the waits of Await.
Result<CommTimes> NcclEndpoint::Call(const CommCall& call, FtQueue* queue) {
  FT_TRY(Check(call));
  CommTimes times;
  times.arrived_ns = times.started_ns = set_.clock_.Now();
  // The arrival of peers is not visible here: NCCL's kernels wait for them.
  if (call.started != nullptr) {
    FT_TRY(Checked(set_.api_.event_record(queue, call.started), "record an event",
                   set_.api_.queue_error(queue)));
  }
  FT_TRY(Guarded(call, [&] { return Give(call, queue); }));
  FT_TRY(set_.Await(*this, TextOf(call)));
  if (call.accumulate) FT_TRY(AddTo(call, queue));
  times.ended_ns = set_.clock_.Now();
  return times;
}

// Only what this rank can see is checked. NCCL does not compare the members' calls: unequal ones
// may hang.
Result<void> NcclEndpoint::Check(const CommCall& call) const {
  const bool splits = call.kind == OpKind::kReduceScatter || call.kind == OpKind::kAllGather ||
                      call.kind == OpKind::kAllToAll;
  if (call.elements < 0 || (splits && call.elements % members_ != 0)) {
    return Fail(ErrorCode::kIo,
                TextOf(call) + ": " + std::to_string(members_) + " members cannot share it evenly");
  }
  const bool sums = call.kind == OpKind::kAllReduce || call.kind == OpKind::kReduceScatter;
  if (sums && !TypeOf(call.dtype).sums) {
    return Fail(ErrorCode::kUnsupported, TextOf(call) + ": NCCL does not sum this format");
  }
  return {};
}

// Puts the call on the queue's own stream, so that it is ordered with the rank's kernels. The
// stream is asked for at each call: by that the recording knows the op of kernels that NCCL
// launches in threads of its own.
Result<void> NcclEndpoint::Give(const CommCall& call, FtQueue* queue) {
  void* const stream = set_.api_.native_queue != nullptr ? set_.api_.native_queue(queue) : nullptr;
  const Type type = TypeOf(call.dtype);
  if (call.kind == OpKind::kAllReduce || call.kind == OpKind::kReduceScatter) {
    return Reduce(call, stream);
  }
  if (call.kind == OpKind::kAllGather) {
    const std::int64_t each = call.elements / members_ * type.each;
    return Told(set_.nccl_.ncclAllGather(call.in, call.out, static_cast<std::size_t>(each),
                                         type.type, comm_, stream),
                call);
  }
  return Exchange(call, stream);
}

// NCCL cannot add to `out`: with accumulate it sums into scratch memory, and AddTo adds that
// afterwards.
Result<void> NcclEndpoint::Reduce(const CommCall& call, void* stream) {
  const Type type = TypeOf(call.dtype);
  const bool all = call.kind == OpKind::kAllReduce;
  const std::int64_t count = all ? call.elements : call.elements / members_;
  void* out = call.out;
  if (call.accumulate) {
    const std::int64_t bytes = count * type.bytes;
    if (scratch_.empty() || scratch_.back().bytes() < bytes) {
      FT_ASSIGN(DeviceMemory larger, DeviceMemory::Make(set_.api_, set_.options_.device, bytes));
      scratch_.push_back(std::move(larger));
    }
    out = scratch_.back().data();
  }
  const auto n = static_cast<std::size_t>(count);
  const int op = call.maximum ? kNcclMax : kNcclSum;
  FT_TRY(Told(all ? set_.nccl_.ncclAllReduce(call.in, out, n, type.type, op, comm_, stream)
                  : set_.nccl_.ncclReduceScatter(call.in, out, n, type.type, op, comm_, stream),
              call));
  return {};
}

// The kernel follows NCCL's on the same queue, so the sum in the scratch memory is complete when it
// runs.
Result<void> NcclEndpoint::AddTo(const CommCall& call, FtQueue* queue) const {
  const std::int64_t count =
      call.kind == OpKind::kAllReduce ? call.elements : call.elements / members_;
  if (count == 0) return {};
  const std::array<const void*, 2> sources = {call.out, scratch_.back().data()};
  const FtSumRanks sum{sources.data(), call.out, count, 2, call.maximum, call.dtype};
  return Checked(set_.api_.sum_ranks(queue, &sum), "add a sum", set_.api_.queue_error(queue));
}

// One NCCL group holds all sends and receives: they run at once, so no order of the members can
// deadlock. Empty parts are skipped on both sides, since both know the lengths.
Result<void> NcclEndpoint::Exchange(const CommCall& call, void* stream) {
  const Type type = TypeOf(call.dtype);
  const NcclApi& nccl = set_.nccl_;
  const auto send = [&](std::int64_t from, std::int64_t count, int peer) -> Result<void> {
    if (count == 0) return {};
    return Told(
        nccl.ncclSend(At(call.in, from * type.bytes), static_cast<std::size_t>(count * type.each),
                      type.type, peer, comm_, stream),
        call);
  };
  const auto receive = [&](std::int64_t to, std::int64_t count, int peer) -> Result<void> {
    if (count == 0) return {};
    return Told(
        nccl.ncclRecv(At(call.out, to * type.bytes), static_cast<std::size_t>(count * type.each),
                      type.type, peer, comm_, stream),
        call);
  };
  const auto parts = [&]() -> Result<void> {
    if (call.kind == OpKind::kSend) return send(0, call.elements, 1 - member_);
    if (call.kind == OpKind::kRecv) return receive(0, call.elements, 1 - member_);
    if (call.kind == OpKind::kRotate) {
      FT_TRY(send(0, call.elements, (member_ + 1) % members_));
      return receive(0, call.elements, (member_ + members_ - 1) % members_);
    }
    const bool equal = call.kind == OpKind::kAllToAll;
    const std::int64_t part = call.elements / members_;
    std::int64_t from = 0, to = 0;
    for (int peer = 0; peer < members_; ++peer) {
      const std::int64_t sent = equal ? part : call.in_parts[peer];
      const std::int64_t came = equal ? part : call.out_parts[peer];
      FT_TRY(send(from, sent, peer));
      FT_TRY(receive(to, came, peer));
      from += sent;
      to += came;
    }
    return {};
  };
  FT_TRY(Told(nccl.ncclGroupStart(), call));
  const Result<void> given = parts();
  // The group must be closed even after an error.
  const int closed = nccl.ncclGroupEnd();
  FT_TRY(given);
  return Told(closed, call);
}

}  // namespace foretrain
