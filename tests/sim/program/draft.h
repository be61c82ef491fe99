// Programs written op by op, for tests of Link and Verify: each op is one instruction with explicit
// reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

// An op's access to a byte range of a buffer; bytes < 0: to the buffer's end.
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
  // Ranks are the stages of one pipeline, with their neighbours as groups next and prev, and all
  // ranks in one group dp.
  explicit Draft(int ranks);

  // Buffers are numbered from 0 on each rank.
  int Temporary(int rank, std::int64_t bytes, Space space = Space::kDevice);
  int State(int rank, std::int64_t bytes, Space space = Space::kDevice);

  // Each appends an op to the rank's step and returns its number there.
  int Add(int rank, Queue queue, const std::vector<Touch>& touches);
  int Block(int rank, Pass pass, int block, int micro_batch, const std::vector<Touch>& touches);
  // A send to, or receive from, the rank above (`down` false: below), in that direction. The k-th
  // send meets the k-th receive.
  int Send(int rank, bool down, const Touch& touch);
  int Recv(int rank, bool down, const Touch& touch);
  // In place, over all ranks; the k-th of each rank are one collective.
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

// Edges of a rank as "from>to", with a prime after `from` if it is in the step before: "0>1 3'>0".
std::string EdgeText(const RankProgram& rank);

}  // namespace foretrain
