// Linked programs made op by op, for tests of the simulator: times and edges are exactly those
// given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/program_costs.h"
#include "sim/program/program.h"

namespace foretrain {

class HandMade {
 public:
  explicit HandMade(int ranks);

  // Adds an op of one instruction to the end of the rank's step; returns its number there. Each op
  // has a cost row of its own.
  int Add(int rank, Queue queue, double seconds, const std::string& name = "op",
          OpClass op_class = OpClass::kMemoryBound);
  // An op in which all `members` of a group take part.
  int AddCollective(int rank, Queue queue, double seconds, const std::vector<int>& members,
                    const std::string& name = "collective");
  // Sides of a transfer between neighbours; `up`: from the lower rank to the higher.
  int AddSend(int rank, bool up, double seconds);
  int AddRecv(int rank, bool up, double seconds);

  void Edge(int rank, int from, int to, int distance = 0);

  // A buffer that the ops touch. Lives are filled as Link does.
  int AddBuffer(int rank, std::int64_t bytes, Category category, const std::vector<int>& ops,
                bool persistent = false);

  // Costs at each of `levels`, for all ops so far: seconds alone times the slowdown at the level.
  void SetLevels(const std::vector<double>& levels, const std::vector<double>& slowdown);

  std::int32_t Row(int rank, int op) const;

  Program program;
  ProgramCosts costs;

 private:
  int Group(const std::vector<int>& members);
  int Append(int rank, const Op& op, double seconds);
};

}  // namespace foretrain
