// The weights of a checkpoint as whole tensors, to start another training from or to convert them.
#pragma once

#include <optional>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/parameters/tensors.h"

namespace foretrain {

// The checkpoint at `path`, or the newest whole one in that folder; `nullopt` if the path is
// neither. Errors: those of OpenNewest.
Result<std::optional<Checkpoint>> FindCheckpoint(FileSystem& files, const std::string& path);

// Opens the checkpoint's files. The source puts a tensor together when it is asked for a part of
// it, and keeps the last one. Errors: the file system's; of the source, kInvalidArgument, a tensor
// that is not whole: frozen parameters are not saved.
Result<TensorSource> WeightsOf(FileSystem& files, const Checkpoint& checkpoint);

// The moving averages of a training with --ema, and the weights of what is not trained. Errors: as
// above; kInvalidArgument, the checkpoint has no averages.
Result<TensorSource> AveragesOf(FileSystem& files, const Checkpoint& checkpoint);

}  // namespace foretrain
