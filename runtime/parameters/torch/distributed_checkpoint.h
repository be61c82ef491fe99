// The tensors of a checkpoint of torch.distributed.checkpoint, which FSDP, torchtitan and Megatron
// (--ckpt-format torch_dist) write. Nothing is read before it is asked for but the description.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// The file in a checkpoint's folder that describes its tensors.
inline constexpr std::string_view kDescriptionName = ".metadata";

// A block of a tensor, in a file of its own or beside others.
struct TensorChunk {
  std::vector<std::int64_t> offsets, sizes;  // by dimension
  std::string file;                          // in the folder
  std::int64_t begin = 0, bytes = 0;         // of what torch.save wrote
};

struct ChunkedTensor {
  std::string dtype;  // of safetensors; "" for one that it lacks
  std::vector<std::int64_t> shape;
  std::vector<TensorChunk> chunks;  // they cover the tensor
};
using ChunkedTensors = std::map<std::string, ChunkedTensor, std::less<>>;

// Parses the description: the pickle of a Metadata. `source` names it in messages. States of
// optimizers ("optimizer." and "optim." before a parameter's name) are left out.
//
// Errors: those of ReadPickle; kCorruptInput: no Metadata, a chunk outside of its tensor, in no
// file or in one that is not in the folder, or chunks that do not cover their tensor (named);
// kUnsupported: chunks that are compressed.
Result<ChunkedTensors> ParseChunkedTensors(std::string_view pickle, std::string_view source);

// A tensor without its first dimensions, at one index of each.
struct TensorSlice {
  std::string tensor;
  std::vector<std::int64_t> leading;
};

// Rows of a slice are read from the chunks that hold them. Safe from several threads.
class DistributedCheckpoint {
 public:
  // Opens the checkpoint in `folder`. `files` must outlive it: chunks' files are opened when they
  // are read.
  //
  // Errors: those of ParseChunkedTensors and of reading; kInvalidArgument: a file that it names is
  // missing; kCorruptInput: a file is cut off, or the tensors are larger than the files.
  static Result<std::unique_ptr<const DistributedCheckpoint>> Open(FileSystem& files,
                                                                   const std::string& folder);

  const ChunkedTensors& tensors() const { return tensors_; }

  // The bytes of rows [first, first + rows) of a slice of one or two dimensions; a vector is one
  // row. Errors: those of ReadPickledTensor and of reading; kCorruptInput: a chunk's file holds
  // another shape or dtype than the description says.
  Result<std::string> Rows(const TensorSlice& slice, std::int64_t first, std::int64_t rows) const;

 private:
  DistributedCheckpoint(FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  // Compares the chunks with the sizes of their files, so that no false size is believed later.
  Result<void> CheckFiles() const;
  Result<void> CopyChunk(const TensorSlice& slice, const ChunkedTensor& tensor,
                         const TensorChunk& chunk, std::int64_t first, std::int64_t rows,
                         std::string& out) const;
  Result<ReadableFile*> FileOf(const std::string& name) const;
  // First byte of a chunk's numbers in its file.
  Result<std::int64_t> NumbersOf(ReadableFile& file, const ChunkedTensor& tensor,
                                 const TensorChunk& chunk) const;

  FileSystem& files_;
  std::string folder_;
  ChunkedTensors tensors_;
  mutable std::mutex mutex_;
  // The files read last, the newest first; guarded by mutex_.
  mutable std::deque<std::pair<std::string, std::unique_ptr<ReadableFile>>> open_;
  mutable std::map<const TensorChunk*, std::int64_t> numbers_;  // guarded by mutex_
};

}  // namespace foretrain
