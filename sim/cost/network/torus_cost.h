// Collectives and transfers between the chips of a torus. communication_cost.h covers switched
// networks.
#pragma once

#include "sim/cost/network/communication_cost.h"

namespace foretrain {

// As TimeOfCommunication, for a fabric with a torus. The group counts as the box of its
// coordinates. If they lie s apart on an axis, s groups share its links. All collectives are rings
// along the axes.
CommunicationTime TimeOnTorus(const Fabric& fabric, OpKind kind, double bytes,
                              const GroupPlace& place);

}  // namespace foretrain
