/* Names of C++ functions of the graph engine that TorchAir's objects leave open, as nm shows them:
 * symbol, function. */
#define WEIR_GE_LIST(X)                                                                                           \
    X(_ZN2ge10GEFinalizeEv, "ge::GEFinalize")                                                                     \
    X(_ZN2ge10TensorDesc11SetDataTypeENS_8DataTypeE, "ge::TensorDesc::SetDataType")                               \
    X(_ZN2ge10TensorDesc12SetPlacementENS_9PlacementE, "ge::TensorDesc::SetPlacement")                            \
    X(_ZN2ge10TensorDesc14SetOriginShapeERKNS_5ShapeE, "ge::TensorDesc::SetOriginShape")                          \
    X(_ZN2ge10TensorDesc15SetOriginFormatENS_6FormatE, "ge::TensorDesc::SetOriginFormat")                         \
    X(_ZN2ge10TensorDesc9SetFormatENS_6FormatE, "ge::TensorDesc::SetFormat")                                      \
    X(_ZN2ge10TensorDescC1Ev, "ge::TensorDesc::TensorDesc")                                                       \
    X(_ZN2ge12AscendStringC1EPKc, "ge::AscendString::AscendString")                                               \
    X(_ZN2ge12GEInitializeERKSt3mapINS_12AscendStringES1_St4lessIS1_ESaISt4pairIKS1_S1_EEE,                       \
      "ge::GEInitialize")                                                                                         \
    X(_ZN2ge13GEGetErrorMsgEv, "ge::GEGetErrorMsg")                                                               \
    X(_ZN2ge13GetFormatNameENS_6FormatE, "ge::GetFormatName")                                                     \
    X(_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_, "ge::OperatorFactory::CreateOperator")                      \
    X(_ZN2ge15OperatorFactory9IsExistOpEPKc, "ge::OperatorFactory::IsExistOp")                                    \
    X(_ZN2ge17GEGetWarningMsgV2Ev, "ge::GEGetWarningMsgV2")                                                       \
    X(_ZN2ge5Graph28LoadFromSerializedModelArrayEPKvm, "ge::Graph::LoadFromSerializedModelArray")                 \
    X(_ZN2ge5Graph8CopyFromERKS0_, "ge::Graph::CopyFrom")                                                         \
    X(_ZN2ge5GraphC1EPKc, "ge::Graph::Graph")                                                                     \
    X(_ZN2ge5ShapeC1ERKSt6vectorIlSaIlEE, "ge::Shape::Shape")                                                     \
    X(_ZN2ge6Tensor11SetDataTypeERKNS_8DataTypeE, "ge::Tensor::SetDataType")                                      \
    X(_ZN2ge6Tensor11SetShapeDimEml, "ge::Tensor::SetShapeDim")                                                   \
    X(_ZN2ge6Tensor12SetPlacementERKNS_9PlacementE, "ge::Tensor::SetPlacement")                                   \
    X(_ZN2ge6Tensor13SetTensorDescERKNS_10TensorDescE, "ge::Tensor::SetTensorDesc")                               \
    X(_ZN2ge6Tensor14SetShapeDimNumEm, "ge::Tensor::SetShapeDimNum")                                              \
    X(_ZN2ge6Tensor17SetOriginShapeDimEml, "ge::Tensor::SetOriginShapeDim")                                       \
    X(_ZN2ge6Tensor20SetOriginShapeDimNumEm, "ge::Tensor::SetOriginShapeDimNum")                                  \
    X(_ZN2ge6Tensor7GetDataEv, "ge::Tensor::GetData")                                                             \
    X(_ZN2ge6Tensor7SetDataEPhmRKSt8functionIFvS1_EE, "ge::Tensor::SetData")                                      \
    X(_ZN2ge6Tensor9ResetDataEPhmRKSt8functionIFvS1_EE, "ge::Tensor::ResetData")                                  \
    X(_ZN2ge6Tensor9ResetDataEv, "ge::Tensor::ResetData")                                                         \
    X(_ZN2ge6Tensor9SetFormatERKNS_6FormatE, "ge::Tensor::SetFormat")                                             \
    X(_ZN2ge6TensorC1Ev, "ge::Tensor::Tensor")                                                                    \
    X(_ZN2ge7Session11RemoveGraphEj, "ge::Session::RemoveGraph")                                                  \
    X(_ZN2ge7Session12CompileGraphEj, "ge::Session::CompileGraph")                                                \
    X(_ZN2ge7Session23GetCompiledGraphSummaryEj, "ge::Session::GetCompiledGraphSummary")                          \
    X(_ZN2ge7Session23RunGraphWithStreamAsyncEjPvRKSt6vectorINS_6TensorESaIS3_EERS5_,                             \
      "ge::Session::RunGraphWithStreamAsync")                                                                     \
    X(_ZN2ge7Session23SetGraphConstMemoryBaseEjPKvm, "ge::Session::SetGraphConstMemoryBase")                      \
    X(_ZN2ge7Session28UpdateGraphFeatureMemoryBaseEjPKvm,                                                         \
      "ge::Session::UpdateGraphFeatureMemoryBase")                                                                \
    X(_ZN2ge7Session30SetGraphFixedFeatureMemoryBaseEjPKvm,                                                       \
      "ge::Session::SetGraphFixedFeatureMemoryBase")                                                              \
    X(_ZN2ge7Session39UpdateGraphRefreshableFeatureMemoryBaseEjPKvm,                                              \
      "ge::Session::UpdateGraphRefreshableFeatureMemoryBase")                                                     \
    X(_ZN2ge7Session8AddGraphEjRKNS_5GraphERKSt3mapINS_12AscendStringES5_St4lessIS5_ESaISt4pairIKS5_S5_EEE,       \
      "ge::Session::AddGraph")                                                                                    \
    X(_ZN2ge7Session8RunGraphEjRKSt6vectorINS_6TensorESaIS2_EERS4_, "ge::Session::RunGraph")                      \
    X(_ZN2ge7SessionC1ERKSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE,                           \
      "ge::Session::Session")                                                                                     \
    X(_ZN2ge7SessionD1Ev, "ge::Session::~Session")                                                                \
    X(_ZN2ge8Operator15UpdateInputDescEPKcRKNS_10TensorDescE, "ge::Operator::UpdateInputDesc")                    \
    X(_ZNK2ge10TensorDesc11GetDataTypeEv, "ge::TensorDesc::GetDataType")                                          \
    X(_ZNK2ge10TensorDesc12GetPlacementEv, "ge::TensorDesc::GetPlacement")                                        \
    X(_ZNK2ge10TensorDesc8GetShapeEv, "ge::TensorDesc::GetShape")                                                 \
    X(_ZNK2ge10TensorDesc9GetFormatEv, "ge::TensorDesc::GetFormat")                                               \
    X(_ZNK2ge12AscendString9GetStringEv, "ge::AscendString::GetString")                                           \
    X(_ZNK2ge12AscendStringeqERKS0_, "ge::AscendString::operator==")                                              \
    X(_ZNK2ge12AscendStringltERKS0_, "ge::AscendString::operator<")                                               \
    X(_ZNK2ge20CompiledGraphSummary15GetOutputDtypesERSt6vectorINS_8DataTypeESaIS2_EE,                            \
      "ge::CompiledGraphSummary::GetOutputDtypes")                                                                \
    X(_ZNK2ge20CompiledGraphSummary15GetOutputShapesERSt6vectorINS_5ShapeESaIS2_EE,                               \
      "ge::CompiledGraphSummary::GetOutputShapes")                                                                \
    X(_ZNK2ge20CompiledGraphSummary18GetConstMemorySizeERm,                                                       \
      "ge::CompiledGraphSummary::GetConstMemorySize")                                                             \
    X(_ZNK2ge20CompiledGraphSummary20GetFeatureMemorySizeERm,                                                     \
      "ge::CompiledGraphSummary::GetFeatureMemorySize")                                                           \
    X(_ZNK2ge20CompiledGraphSummary25GetFixedFeatureMemorySizeERm,                                                \
      "ge::CompiledGraphSummary::GetFixedFeatureMemorySize")                                                      \
    X(_ZNK2ge20CompiledGraphSummary31GetFeatureMemoryBaseRefreshableERb,                                          \
      "ge::CompiledGraphSummary::GetFeatureMemoryBaseRefreshable")                                                \
    X(_ZNK2ge20CompiledGraphSummary8IsStaticEv, "ge::CompiledGraphSummary::IsStatic")                             \
    X(_ZNK2ge5GNode7GetTypeERNS_12AscendStringE, "ge::GNode::GetType")                                            \
    X(_ZNK2ge5Graph10SaveToFileEPKc, "ge::Graph::SaveToFile")                                                     \
    X(_ZNK2ge5Graph11GetAllNodesEv, "ge::Graph::GetAllNodes")                                                     \
    X(_ZNK2ge5Shape7GetDimsEv, "ge::Shape::GetDims")                                                              \
    X(_ZNK2ge6Tensor11GetDataTypeEv, "ge::Tensor::GetDataType")                                                   \
    X(_ZNK2ge6Tensor11GetShapeDimEm, "ge::Tensor::GetShapeDim")                                                   \
    X(_ZNK2ge6Tensor12GetPlacementEv, "ge::Tensor::GetPlacement")                                                 \
    X(_ZNK2ge6Tensor13GetTensorDescEv, "ge::Tensor::GetTensorDesc")                                               \
    X(_ZNK2ge6Tensor14GetShapeDimNumEv, "ge::Tensor::GetShapeDimNum")                                             \
    X(_ZNK2ge6Tensor20GetOriginShapeDimNumEv, "ge::Tensor::GetOriginShapeDimNum")                                 \
    X(_ZNK2ge6Tensor7GetDataEv, "ge::Tensor::GetData")                                                            \
    X(_ZNK2ge6Tensor9GetFormatEv, "ge::Tensor::GetFormat")                                                        \
    X(_ZNK2ge7Session25RegisterExternalAllocatorEPKvSt10shared_ptrINS_9AllocatorEE,                               \
      "ge::Session::RegisterExternalAllocator")                                                                   \
    X(_ZNK2ge8Operator25GetAllIrAttrNamesAndTypesERSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE, \
      "ge::Operator::GetAllIrAttrNamesAndTypes")
