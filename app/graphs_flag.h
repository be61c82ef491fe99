// --cuda-graphs, of the commands that run or forecast a plan on a GPU.
#pragma once

#include <string>

#include "app/arguments.h"
#include "base/result.h"

namespace foretrain {

struct GraphsFlag {
  std::string word = "off";

  void Declare(Arguments& arguments) {
    arguments.Option(
        "--cuda-graphs", word, "on|off",
        "Launch what a block's kernels do again each step as CUDA graphs (default: off)");
  }
  // Errors: kInvalidArgument, another word.
  Result<bool> IsOn() const {
    if (word == "on" || word == "off") return word == "on";
    return Fail(ErrorCode::kInvalidArgument,
                "--cuda-graphs: \"" + word + "\" is neither on nor off");
  }
};

}  // namespace foretrain
