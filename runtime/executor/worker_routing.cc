// Routers' choices and row counts, as a worker's ops read and use them.
#include <sstream>

#include "runtime/executor/worker.h"
#include "runtime/run/routing.h"
#include "sim/program/ir/row_counts.h"

namespace foretrain {

// A script sees every choice, so the host waits for each router. Without a script routers run like
// any other kernel.
Result<void> Worker::Choose(const KernelCall& call, OpId op) {
  const RankPlan& plan = rank_.plan_;
  const InstructionKey key = UnpackId(op);
  FtRoute route = call.args.As<FtRoute>();
  const RoutingSite site{values_.step, plan.rank,       plan.dp,         plan.cp,
                         plan.tp,      key.block,       key.micro_batch, key.pass,
                         route.rows,   route.per_token, call.router};
  const std::int64_t bytes = route.rows * route.per_token * std::int64_t{sizeof(std::int32_t)};
  FT_ASSIGN(std::byte* const room, Landing(bytes));
  const std::span chosen(reinterpret_cast<std::int32_t*>(room),
                         static_cast<std::size_t>(route.rows * route.per_token));
  RoutingScript& script = *rank_.shared_.options.routing;
  if (script.Replay(site, chosen)) {
    route.replay = 1;
    FT_TRY(CheckDevice(api_.copy(device_queue_.get(), route.chosen, chosen.data(), bytes)));
  }
  KernelArgs args;
  args = route;
  FT_TRY(CheckDevice(call.launch(api_, device_queue_.get(), args, values_)));
  FT_TRY(CheckDevice(api_.copy(device_queue_.get(), chosen.data(), route.chosen, bytes)));
  FT_TRY(Settle());
  script.Record(site, chosen);
  return {};
}

// The host must know the counts before it can launch what depends on them: this waits for the
// device.
Result<const std::int32_t*> Worker::FetchCounts(const std::byte* at, const OpShape& shape) {
  const std::int64_t bytes = RowCounts::Numbers(shape) * std::int64_t{sizeof(std::int32_t)};
  FT_ASSIGN(std::byte* const counts, Landing(bytes));
  FT_TRY(CheckDevice(api_.copy(device_queue_.get(), counts, at, bytes)));
  FT_TRY(Settle());
  return reinterpret_cast<const std::int32_t*>(counts);
}

Result<void> Worker::ReadCounts(const PlannedCounts& counts, OpId op) {
  FT_ASSIGN(const std::int32_t* const at, FetchCounts(counts.at, counts.shape));
  const InstructionKey key = UnpackId(op);
  if (key.pass != Pass::kForward) return {};  // recomputation: already reported
  const auto count = static_cast<std::size_t>(RowCounts::Numbers(counts.shape));
  const RoutedCounts routed{
      values_.step,    rank_.plan_.rank,           key.block,
      key.micro_batch, std::string(counts.router), std::vector<std::int32_t>(at, at + count)};
  const std::lock_guard<std::mutex> lock(rank_.shared_.sink_mutex);
  rank_.call_->sink->OnRouting(routed);
  return {};
}

// Row counts give the part lengths in elements. `is_return` swaps sent and received, for the way
// back from the experts. The received rows must fit the buffer, whose size the plan fixed.
Result<void> Worker::MeasureParts(const PlannedComm& planned, CommCall& call, Span& span) {
  const OpShape& shape = planned.shape;
  FT_ASSIGN(const std::int32_t* const at, FetchCounts(planned.counts, shape));
  const RowCounts counts(shape, planned.member, at);
  in_parts_.clear();
  out_parts_.clear();
  std::int64_t sent = 0, comes = 0;
  for (int member = 0; member < shape.members; ++member) {
    in_parts_.push_back(shape.cols *
                        (planned.is_return ? counts.Came(member) : counts.Sent(member)));
    out_parts_.push_back(shape.cols *
                         (planned.is_return ? counts.Sent(member) : counts.Came(member)));
    sent += in_parts_.back();
    comes += out_parts_.back();
  }
  if (comes > planned.out_room) {
    std::ostringstream text;
    text << rank_.plan_.expert_headroom;
    return Fail(ErrorCode::kResourceExhausted,
                std::to_string(comes / shape.cols) +
                    " rows come for this rank's experts, which have "
                    "room for " +
                    std::to_string(planned.out_room / shape.cols) + " with expert_headroom " +
                    text.str() + "; raise --expert-headroom, or 0 has room for all that may come");
  }
  call.in_parts = in_parts_.data();
  call.out_parts = out_parts_.data();
  span.bytes = sent * planned.each;
  return {};
}

}  // namespace foretrain
