// Collectives and transfers between the chips of a torus. Leaves out networks of switches
// (communication_cost.h).
#pragma once

#include "sim/cost/communication_cost.h"

namespace foretrain {

// As TimeOfCommunication, of a fabric with a torus. A group is taken for the box of its places
// along each axis; where these lie s apart, s groups share the axis's links. All algorithms are the
// rings of the axes.
CommunicationTime TimeOnTorus(const Fabric& fabric, OpKind kind, double bytes,
                              const GroupPlace& place);

}  // namespace foretrain
