#include "ui/view_model/hue.h"

namespace foretrain::ui {
namespace {

Hue HueOfPass(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return Hue::kForward;
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return Hue::kBackward;
    case Pass::kBackwardWeight:
    case Pass::kUpdate:
      return Hue::kUpdate;
    case Pass::kRecompute:
      return Hue::kRecompute;
    case Pass::kNone:
      break;
  }
  return Hue::kUnnamed;
}

}  // namespace

Hue HueOf(const Span& span) {
  switch (span.op_class) {
    case OpClass::kPpComm:
      return Hue::kPointToPoint;
    case OpClass::kCopy:
      return Hue::kCopy;
    case OpClass::kHost:
      return Hue::kHost;
    default:
      break;
  }
  if (IsCommunication(span.op_class)) return Hue::kCollective;
  if (!IsValidId(span.op)) return Hue::kUnnamed;
  const InstructionKey key = UnpackId(span.op);
  const bool updates =
      key.kind == InstructionKind::kOptimizerStep || key.kind == InstructionKind::kNorm;
  return updates ? Hue::kUpdate : HueOfPass(key.pass);
}

std::string_view Name(Hue hue) {
  switch (hue) {
    case Hue::kForward:
      return "forward";
    case Hue::kBackward:
      return "backward";
    case Hue::kUpdate:
      return "weights and update";
    case Hue::kRecompute:
      return "recompute";
    case Hue::kCollective:
      return "collective";
    case Hue::kPointToPoint:
      return "send and receive";
    case Hue::kCopy:
      return "copy";
    case Hue::kHost:
      return "host";
    case Hue::kUnnamed:
      break;
  }
  return "unnamed";
}

}  // namespace foretrain::ui
