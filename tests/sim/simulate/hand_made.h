// Builds linked programs op by op for tests of the simulator, with exactly the given times and
// edges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"

namespace foretrain {

class HandMade {
 public:
  explicit HandMade(int ranks);

  // Appends an op in its own instruction to the rank's step and returns its number there. Each op
  // has its own cost row.
  int Add(int rank, Queue queue, double seconds, const std::string& name = "op",
          OpClass op_class = OpClass::kMemoryBound);
  // An op in which all `members` take part.
  int AddCollective(int rank, Queue queue, double seconds, const std::vector<int>& members,
                    const std::string& name = "collective");
  // The two sides of a transfer between neighbours. `up`: from the lower rank to the higher.
  int AddSend(int rank, bool up, double seconds);
  int AddRecv(int rank, bool up, double seconds);

  void Edge(int rank, int from, int to, int distance = 0);

  // A buffer touched by `ops`. Lives are filled as Link does.
  int AddBuffer(int rank, std::int64_t bytes, Category category, const std::vector<int>& ops,
                bool persistent = false);

  // Costs of all ops so far at each of `levels`: the seconds alone times the slowdown at the level.
  void SetLevels(const std::vector<double>& levels, const std::vector<double>& slowdown);

  std::int32_t Row(int rank, int op) const;

  Program program;
  ProgramCosts costs;

 private:
  int Group(const std::vector<int>& members);
  int Append(int rank, const Op& op, double seconds);
};

}  // namespace foretrain
