// Programs written down op by op, for tests of Link and Verify: each op is one instruction that
// says what it reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

// An op's access to a byte range of a buffer; bytes < 0: to its end.
struct Touch {
  int buffer = 0;
  Access access = Access::kRead;
  std::int64_t offset = 0;
  std::int64_t bytes = -1;
};
inline Touch Reads(int buffer, std::int64_t offset = 0, std::int64_t bytes = -1) {
  return {buffer, Access::kRead, offset, bytes};
}
inline Touch Writes(int buffer, std::int64_t offset = 0, std::int64_t bytes = -1) {
  return {buffer, Access::kWrite, offset, bytes};
}
inline Touch Changes(int buffer, std::int64_t offset = 0, std::int64_t bytes = -1) {
  return {buffer, Access::kReadWrite, offset, bytes};
}

class Draft {
 public:
  // Ranks are stages of one pipeline, each with its neighbours as groups next and prev, and all of
  // them in one group dp.
  explicit Draft(int ranks);

  // Numbers of buffers count from 0 on each rank.
  int Temporary(int rank, std::int64_t bytes, Space space = Space::kDevice);
  int State(int rank, std::int64_t bytes, Space space = Space::kDevice);

  // Each adds an op to the end of the rank's step and returns its number there.
  int Add(int rank, Queue queue, const std::vector<Touch>& touches);
  int Block(int rank, Pass pass, int block, int micro_batch, const std::vector<Touch>& touches);
  // A send to, or receive from, the rank above (`down` false: below), in the direction given. The
  // k-th of one meets the k-th of the other.
  int Send(int rank, bool down, const Touch& touch);
  int Recv(int rank, bool down, const Touch& touch);
  // In place, over all ranks; the k-th of each rank are one.
  int AllReduce(int rank, Queue queue, const Touch& touch);

  // Makes the last instruction of the rank wait for all ops of an earlier one.
  void After(int rank, int instruction);

  RankProgram& Rank(int rank) { return program.ranks[static_cast<std::size_t>(rank)]; }
  foretrain::Op& OpAt(int rank, int op);
  Instruction& InstructionAt(int rank, int op);
  Buffer& BufferAt(int rank, int buffer);

  Program program;

 private:
  int NewBuffer(int rank, std::int64_t bytes, Space space, bool persistent);
  int Append(int rank, const InstructionKey& key, Op op, const std::vector<Touch>& touches);
  int Count(int rank, InstructionKind kind, Pass pass) const;
};

// Edges of a rank as "from>to", with a prime behind `from` where it is of the step before: "0>1
// 3'>0".
std::string EdgeText(const RankProgram& rank);

}  // namespace foretrain
