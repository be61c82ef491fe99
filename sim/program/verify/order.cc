#include <algorithm>
#include <string>

#include "sim/program/link/clocks.h"
#include "sim/program/link/hazards.h"
#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

constexpr int kSteps = 2;  // the second step stands for all later ones: edges and hazards do not
                           // depend on the step's number

// "bytes 256 + 64 of the device arena ...": the first bytes that both ops touch, one of them
// writing.
std::string SharedBytes(const RankProgram& rank, const FlatStep& step, std::int32_t a,
                        std::int32_t b) {
  for (const TensorAccess& x : step.AccessesOf(a)) {
    for (const TensorAccess& y : step.AccessesOf(b)) {
      const Buffer& of_x = rank.buffers[static_cast<std::size_t>(x.buffer)];
      const Buffer& of_y = rank.buffers[static_cast<std::size_t>(y.buffer)];
      const std::int64_t begin = std::max(of_x.offset + x.begin, of_y.offset + y.begin);
      const std::int64_t end = std::min(of_x.offset + x.end, of_y.offset + y.end);
      if (of_x.space != of_y.space || begin >= end || !(Writes(x) || Writes(y))) continue;
      return "bytes " + std::to_string(begin) + " + " + std::to_string(end - begin) + " of the " +
             std::string(Name(of_x.space)) + " arena (buffer " + std::to_string(x.buffer) +
             (x.buffer == y.buffer ? "" : ", then " + std::to_string(y.buffer)) + ")";
    }
  }
  return "the same bytes";
}

Result<void> Unordered(const Program& program, const RankProgram& rank, const FlatStep& step,
                       std::int32_t from, std::int32_t to) {
  const std::int32_t ops = step.Ops();
  const bool crosses = from / ops != to / ops;
  return Fail(ErrorCode::kInvalidArgument,
              DescribeOp(program, rank, step, to % ops) + " does not wait for " +
                  DescribeOp(program, rank, step, from % ops) +
                  (crosses ? " of the step before" : "") + "; both touch " +
                  SharedBytes(rank, step, from % ops, to % ops) +
                  ", and no path of edges and queues orders them");
}

Result<void> NotThrottled(const Program& program, const RankProgram& rank, const FlatStep& step,
                          std::int32_t from, std::int32_t to) {
  return Fail(ErrorCode::kInvalidArgument,
              DescribeOp(program, rank, step, to) + " does not wait for " +
                  DescribeOp(program, rank, step, from) + ", which its instruction comes after");
}

}  // namespace

// The counterpart of DeriveEdges: the same hazards must be covered by queue order and the edges
// that are there. The clocks start from the program's edges instead of adding new ones, so any
// missing edge shows.
Result<void> CheckOrder(const Program& program, const RankProgram& rank, const FlatStep& step) {
  for (const Edge& edge : rank.edges) {
    if (edge.distance > 0 || edge.from < edge.to) continue;
    return Fail(ErrorCode::kInvalidArgument,
                DescribeOp(program, rank, step, edge.to) + " waits by an edge for " +
                    DescribeOp(program, rank, step, edge.from) + ", which is issued later");
  }
  HazardMap hazards(step, rank);
  VectorClocks clocks(step, kSteps);
  for (int iteration = 0; iteration < kSteps; ++iteration) {
    const std::int32_t first = iteration * step.Ops();
    auto edge = rank.edges.begin();
    for (std::int32_t op = 0; op < step.Ops(); ++op) {
      clocks.Begin();
      for (; edge != rank.edges.end() && edge->to == op; ++edge) {
        if (edge->distance <= iteration)
          clocks.Join(first - edge->distance * step.Ops() + edge->from);
      }
      // Data hazards first, then the explicit throttle, each with its own message.
      LaneOps after = kNoOps;
      hazards.Visit(op, iteration, after);
      std::int32_t from = clocks.LatestUncovered(after);
      if (from >= 0) return Unordered(program, rank, step, from, first + op);
      after = kNoOps;
      AddThrottle(rank, step, op, iteration, after);
      from = clocks.LatestUncovered(after);
      if (from >= 0) return NotThrottled(program, rank, step, from % step.Ops(), op);
    }
  }
  return {};
}

}  // namespace foretrain
