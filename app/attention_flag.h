// --attention-kernels, of the commands that run a plan: which kernels compute it.
#pragma once

#include <string>

#include "app/arguments.h"
#include "base/result.h"
#include "runtime/executor.h"

namespace foretrain {

struct AttentionFlag {
  std::string word = "auto";

  void Declare(Arguments& arguments) {
    arguments.Option("--attention-kernels", word, "auto|own|cudnn|cudnn-any-order",
                     "Kernels of attention on a GPU: its own, cuDNN's, or by the profile's times "
                     "(default: auto); cudnn-any-order: its backward in no fixed order");
  }
  // Errors: kInvalidArgument, another word.
  Result<AttentionChoice> Choice() const {
    if (word == "auto") return AttentionChoice::kAuto;
    if (word == "own") return AttentionChoice::kOwn;
    if (word == "cudnn") return AttentionChoice::kLibrary;
    if (word == "cudnn-any-order") return AttentionChoice::kLibraryAnyOrder;
    return Fail(
        ErrorCode::kInvalidArgument,
        "--attention-kernels: \"" + word + "\" is none of auto, own, cudnn and cudnn-any-order");
  }
};

}  // namespace foretrain
