// The tensors of one safetensors file, of a Hugging Face folder with one file or several and an
// index, or of a checkpoint of torch.distributed.checkpoint. Nothing is read before it is asked
// for. Leaves out what the tensors mean: weights.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/parameters/safetensors.h"
#include "runtime/parameters/torch/distributed_checkpoint.h"

namespace foretrain {

// Names of weights in a folder of the Hugging Face library.
inline constexpr std::string_view kWeightsName = "model.safetensors";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
// The file in which Megatron notes its newest checkpoint: 100 for the folder iter_0000100.
inline constexpr std::string_view kNewestName = "latest_checkpointed_iteration.txt";

// Parses an index: {"weight_map": {tensor: file, ...}}. `source` names it in messages.
//
// Errors: kCorruptInput: not JSON, no weight_map, a file's name that is no plain name ending in
// .safetensors, so that an index cannot name files elsewhere.
Result<std::map<std::string, std::string>> ParseWeightIndex(std::string_view text,
                                                            std::string_view source);

// Consecutive rows of a tensor, as the file's bytes.
class TensorRows {
 public:
  TensorRows(std::string dtype, std::int64_t first, std::string bytes)
      : dtype_(std::move(dtype)), first_(first), bytes_(std::move(bytes)) {}

  // Element `index` of the whole tensor in row-major order; it must lie in these rows.
  float At(std::int64_t index) const;
  // Elements [index, index + out.size()).
  void Read(std::int64_t index, std::span<float> out) const;

 private:
  std::string dtype_;
  std::int64_t first_;  // element
  std::string bytes_;
};

// Open files and their headers. Safe from several threads.
class WeightFiles {
 public:
  // Opens `path`: a safetensors file, or a folder with kWeightsName, with kIndexName and its files,
  // with kDescriptionName (distributed_checkpoint.h), or with Megatron's kNewestName, which names
  // such a folder in it. Reads all headers and checks that each file has the tensors that the index
  // promises. `files` must outlive the result.
  //
  // Errors: those of ParseSafetensorsHeader, ParseWeightIndex and DistributedCheckpoint::Open;
  // kInvalidArgument: the folder has no weights, lacks a file of its index, or names more than 512
  // files; kCorruptInput: a file lacks a tensor, which is named.
  static Result<std::unique_ptr<const WeightFiles>> Open(FileSystem& files,
                                                         const std::string& path);

  // Null if there is no such tensor. Of a distributed checkpoint: without bytes.
  const SafetensorEntry* Find(std::string_view name) const;
  // All names, sorted.
  std::vector<std::string> Names() const;

  // Reads rows [first, first + rows) of a tensor. Errors: kUnsupported, a dtype other than F32,
  // BF16 and F16; kIo, kCorruptInput: the file cannot be read, or has become shorter.
  Result<TensorRows> Rows(std::string_view name, std::int64_t first, std::int64_t rows) const;

  // The file or folder, for messages.
  const std::string& path() const { return path_; }

 private:
  struct Place {
    SafetensorEntry entry;
    std::size_t file = 0;
    TensorSlice slice{};  // of a distributed checkpoint
  };
  struct OpenFile {
    std::string path;
    std::unique_ptr<ReadableFile> file;
  };
  WeightFiles() = default;
  Result<void> OpenFolder(FileSystem& files);
  Result<void> OpenIndexed(FileSystem& files, const std::string& index);
  Result<void> OpenDistributed(FileSystem& files, const std::string& folder);
  Result<SafetensorEntries> OpenOne(FileSystem& files, const std::string& path);

  std::string path_;
  std::vector<OpenFile> files_;
  std::unique_ptr<const DistributedCheckpoint> distributed_;  // null for other files
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace foretrain
